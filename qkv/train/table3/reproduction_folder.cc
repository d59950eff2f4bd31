#include "qkv/train/table3/reproduction_folder.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"
#include "qkv/base/files.h"
#include "qkv/base/hash.h"
#include "qkv/base/json.h"
#include "qkv/nn/residual_branches.h"
#include "qkv/text/text_file.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

constexpr const char *kTable3Settings = "table3.json", *kTable3Result = "result.json";

// What all runs of a folder have in common.
std::vector<std::pair<std::string, std::string>> settings_of_table3(const Table3Options& options) {
  return {{"scale", std::to_string(options.scale)},
          {"steps", std::to_string(options.steps)},
          {"batch_tokens", std::to_string(options.batch_tokens)},
          {"warmup_steps", std::to_string(options.warmup_steps)},
          {"rate_factor", field_text(options.rate_factor)},
          {"source_lang", options.source_lang},
          {"target_lang", options.target_lang}};
}

}  // namespace

Table3Files table3_files(const Table3Options& options) {
  const auto file = [&](const char* part, const std::string& language) {
    fs::path path = options.data / (std::string(part) + "." + language);
    if (!fs::is_regular_file(path)) {
      throw IoError(concat("data: ", options.data.string(), ": expected a folder with train.",
                           options.source_lang, ", train.", options.target_lang, ", val.",
                           options.source_lang, " and val.", options.target_lang, ", found no ",
                           path.filename().string()));
    }
    return path;
  };
  return {
      .train = {.source = file("train", options.source_lang), .target = file("train", options.target_lang)},
      .valid = {.source = file("val", options.source_lang), .target = file("val", options.target_lang)}};
}

std::string fingerprint_of(const Table3Files& files) {
  Hash64 hash;
  for (const fs::path& path :
       {files.train.source, files.train.target, files.valid.source, files.valid.target}) {
    uint64_t size = 0;
    text::read_text_in_pieces(path, [&](const char* piece, size_t bytes) {
      hash.add(piece, bytes);
      size += bytes;
    });
    hash.add(size);
  }
  return std::to_string(hash.value());
}

std::optional<SavedTable3> read_table3(const fs::path& folder) {
  const fs::path path = folder / kTable3Settings;
  if (!fs::exists(path)) return std::nullopt;
  const JsonValue object = parse_json(read_file(path), path.string());
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  SavedTable3 saved;
  Table3Options& options = saved.options;
  options.data = object["data"].string();
  options.source_lang = object["source_lang"].string();
  options.target_lang = object["target_lang"].string();
  options.scale = object["scale"].integer(1, 16);
  options.steps = object["steps"].integer(1, kMost);
  options.batch_tokens = object["batch_tokens"].integer(1, kMost);
  options.warmup_steps = object["warmup_steps"].integer(0, kMost);
  options.rate_factor = static_cast<float>(object["rate_factor"].number());
  options.seeds = object["seeds"].integer(1, kMaxTable3Seeds);
  for (const JsonValue& row : object["rows"].items()) options.rows.push_back(row.string());
  saved.fingerprint = object["data_fingerprint"].string();
  if (const std::optional<JsonValue> start = object.find("residual_start"))
    saved.residual_start = start->number();
  return saved;
}

void write_table3(const fs::path& folder, const Table3Options& options, const std::string& fingerprint) {
  const nlohmann::ordered_json object{{"data", fs::absolute(options.data).lexically_normal().string()},
                                      {"data_fingerprint", fingerprint},
                                      {"source_lang", options.source_lang},
                                      {"target_lang", options.target_lang},
                                      {"scale", options.scale},
                                      {"steps", options.steps},
                                      {"batch_tokens", options.batch_tokens},
                                      {"warmup_steps", options.warmup_steps},
                                      {"rate_factor", decimal(options.rate_factor)},
                                      {"residual_start", decimal(nn::kResidualStart)},
                                      {"seeds", options.seeds},
                                      {"rows", options.rows}};
  write_file_atomically(folder / kTable3Settings, object.dump(2) + "\n");
}

void require_same_reproduction(const fs::path& folder, const Table3Options& options,
                               const std::string& fingerprint) {
  const std::optional<SavedTable3> saved = read_table3(folder);
  if (!saved) {
    if (files_in(folder).empty()) return;
    throw UsageError(concat(folder.string(),
                            ": expected a new folder, an empty one or an earlier reproduction's, found other "
                            "files"));
  }
  const auto before = settings_of_table3(saved->options), now = settings_of_table3(options);
  for (size_t i = 0; i < now.size(); ++i) {
    if (before[i] == now[i]) continue;
    throw UsageError(concat(now[i].first, ": expected ", before[i].second, " as in the reproduction in ",
                            folder.string(), ", found ", now[i].second, "; choose another folder"));
  }
  if (saved->residual_start != decimal(nn::kResidualStart)) {
    throw UsageError(concat("residual_start: expected ", decimal(nn::kResidualStart),
                            ", the start of this version's runs, found ", saved->residual_start, " in ",
                            folder.string(), ", whose runs are another version's; choose another folder"));
  }
  if (saved->fingerprint != fingerprint) {
    throw UsageError(concat("data: ", options.data.string(), ": expected the texts of the reproduction in ",
                            folder.string(), ", found others; choose another folder"));
  }
}

fs::path folder_of_run(const fs::path& folder, const std::string& row, uint64_t seed) {
  return folder / concat(row, "-seed", seed);
}

std::optional<Table3Run> read_result(const fs::path& folder) {
  const fs::path path = folder / kTable3Result;
  if (!fs::exists(path)) return std::nullopt;
  const JsonValue object = parse_json(read_file(path), path.string());
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Table3Run run{.row = object["row"].string(),
                .seed = static_cast<uint64_t>(object["seed"].integer(1, kMaxTable3Seeds)),
                .parameters = object["parameters"].integer(0, kMost),
                .steps = object["steps"].integer(0, kMost),
                .loss = 0,
                .bleu = 0,
                .seconds = object["seconds"].number(),
                .failure = object.string_or("failure", "")};
  if (run.failure.empty()) {
    run.loss = object["loss"].number();
    run.bleu = object["bleu"].number();
  }
  return run;
}

void write_result(const fs::path& folder, const Table3Run& run) {
  nlohmann::ordered_json object{{"row", run.row},
                                {"seed", run.seed},
                                {"parameters", run.parameters},
                                {"steps", run.steps},
                                {"seconds", run.seconds}};
  if (run.failure.empty()) {
    object["loss"] = run.loss;
    object["bleu"] = run.bleu;
  } else {
    object["failure"] = run.failure;
  }
  write_file_atomically(folder / kTable3Result, object.dump(2) + "\n");
}

void remove_leftovers(const fs::path& folder) {
  with_io_errors([&] {
    for (const char* name : {"checkpoints", "cache"}) fs::remove_all(folder / name);
  });
}

fs::path table3_vocabulary_file(const fs::path& folder) { return folder / "vocabulary.spm"; }

}  // namespace qkv::train
