#include "tests/faults/workload.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "tests/faults/process.h"

namespace qkv::faults {
namespace {

namespace fs = std::filesystem;

// Forty pairs with lines of different lengths and words.
void write_corpus(const fs::path& folder) {
  constexpr std::array<const char*, 6> kEnglish{"cat", "dog", "house", "tree", "river", "mountain"};
  constexpr std::array<const char*, 6> kGerman{"Katze", "Hund", "Haus", "Baum", "Fluss", "Berg"};
  std::string source, target;
  for (size_t i = 0; i < 40; ++i) {
    source += "the " + std::string(kEnglish[i % 6]) + " sees " + std::to_string(i) + " times";
    target += "das sieht " + std::to_string(i) + " mal " + kGerman[i % 6];
    if (i % 3 == 0)
      source += " the " + std::string(kEnglish[i / 6 % 6]),
          target += std::string(" und ") + kGerman[i / 6 % 6];
    source += "\n";
    target += "\n";
  }
  write_whole(folder / "source", source);
  write_whole(folder / "target", target);
}

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

std::vector<Workload> make_workloads(const std::string& program, const fs::path& folder) {
  write_corpus(folder);
  const std::string source = folder / "source", target = folder / "target", model = folder / "model";
  const std::vector<std::string> train{program,
                                       "train",
                                       "translation",
                                       "--src",
                                       source,
                                       "--tgt",
                                       target,
                                       "--valid-src",
                                       source,
                                       "--valid-tgt",
                                       target,
                                       "--preset",
                                       "tiny",
                                       "--set",
                                       "model.d_model=16",
                                       "--set",
                                       "model.heads=2",
                                       "--set",
                                       "model.d_ff=32",
                                       "--vocab-size",
                                       "60",
                                       "--batch-tokens",
                                       "300",
                                       "--max-steps",
                                       "4",
                                       "--checkpoint-every",
                                       "2",
                                       "--validate-every",
                                       "2",
                                       "--bleu-sentences",
                                       "2",
                                       "--learning-rate",
                                       "0.01",
                                       "--warmup-steps",
                                       "1",
                                       "--threads",
                                       "2",
                                       "--quiet",
                                       "--out"};
  const Outcome made = run_process(with(train, {model}), folder);
  if (made.status != 0) throw std::runtime_error("the model was not trained: " + made.err);

  const auto on_two_threads = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), program);
    return with(std::move(arguments), {"--threads", "2"});
  };
  std::vector<std::string> known = with(train, {"OUT", "--vocab", model + "/source.spm"});
  const auto size = std::ranges::find(known, "--vocab-size");  // of a vocabulary that is trained
  known.erase(size, size + 2);
  // Short enough for every call of it to fail once: each kind of file is written, replaced and removed.
  std::vector<std::string> tiny = known;
  for (const auto& [option, value] : {std::pair("--max-steps", "2"),
                                      {"--validate-every", "1"},
                                      {"--checkpoint-every", "1"},
                                      {"--batch-tokens", "100"},
                                      {"--threads", "1"}})
    *(std::ranges::find(tiny, std::string(option)) + 1) = value;
  tiny = with(tiny, {"--bleu-every", "0", "--set", "train.keep_checkpoints=1", "--set",
                     "model.encoder_layers=1", "--set", "model.decoder_layers=1"});
  const auto quantize = on_two_threads({"quantize", model, "--dtype", "int8", "--out", "OUT"});
  const auto report =
      on_two_threads({"attention", model, "--source", "the cat sees 3 times", "--out", "OUT"});
  const auto translate = on_two_threads({"translate", model, "--beam", "2"});
  return {{.name = "train", .command = known, .again = with(known, {"--resume"}), .out = "run"},
          {.name = "train-tiny", .command = tiny, .again = with(tiny, {"--resume"}), .out = "run"},
          {.name = "train-vocabulary",
           .command = with(train, {"OUT"}),
           .again = with(train, {"OUT", "--resume"}),
           .out = "run",
           .starts_library_threads = true},
          {.name = "quantize", .command = quantize, .again = quantize, .out = "int8"},
          {.name = "report",
           .command = report,
           .again = report,
           .out = "report.html",
           .previous = "an older report"},
          {.name = "translate",
           .command = translate,
           .again = translate,
           .out = {},
           .input = "the cat sees 3 times\nthe river\n\nthe dog sees 11 times the tree\n"}};
}

std::map<std::string, std::string> results_of(const fs::path& out) {
  std::map<std::string, std::string> results;
  if (fs::is_regular_file(out)) results[""] = read_whole(out);
  if (!fs::is_directory(out)) return results;
  for (const auto& entry : fs::recursive_directory_iterator(out)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = fs::relative(entry.path(), out);
    if (name.starts_with("runs/") || name == "speed.jsonl") continue;
    results[name] = name.starts_with("checkpoints/") ? std::string() : read_whole(entry.path());
  }
  return results;
}

}  // namespace qkv::faults
