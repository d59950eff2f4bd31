// qkv quantize

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <vector>

#include "apps/cli/messages.h"
#include "apps/load_options.h"
#include "apps/progress.h"
#include "apps/tasks/lm_documents.h"
#include "apps/terminal.h"
#include "qkv/base/files.h"
#include "qkv/io/tensor_file.h"
#include "qkv/models/hub/copies.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/models/hub/tensor_files.h"
#include "qkv/ops/quantize.h"
#include "qkv/pipelines/open_model.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/train/tasks/lm/lm_calibration.h"
#include "qkv/train/tasks/lm/lm_evaluation.h"

namespace qkv::apps {

namespace {

struct QuantizeArguments {
  std::string model, out, calibrate;
  std::optional<DType> dtype;
};

int64_t weight_bytes(const std::filesystem::path& folder) {
  int64_t bytes = 0;
  const models::TensorFiles files(folder, MapFor::reading);
  for (const auto& file : files.files())
    bytes += static_cast<int64_t>(std::filesystem::file_size(file->path()));
  return bytes;
}

bool holds_rounded_weights(const std::filesystem::path& folder) {
  const models::TensorFiles files(folder, MapFor::reading);
  return std::ranges::any_of(files.files(), [](const auto& file) {
    return std::ranges::any_of(file->names(), [&](const std::string& name) {
      const std::string& dtype = file->dtype(name);
      return dtype == "BF16" || dtype == "I8" || dtype.find('_') != std::string::npos;  // "Q8_0"
    });
  });
}

// The first nine tenths of the tokens, and the rest.
std::pair<data::TokenDocuments, data::TokenDocuments> divided(const data::TokenDocuments& all) {
  const int64_t cut = all.tokens() - std::max<int64_t>(2, all.tokens() / 10);
  std::pair<data::TokenDocuments, data::TokenDocuments> parts;
  const auto put = [&](data::TokenDocuments& part, int64_t begin, int64_t end) {
    if (begin >= end) return;
    part.ids.insert(part.ids.end(), all.ids.begin() + begin, all.ids.begin() + end);
    part.begins.push_back(part.tokens());
  };
  for (int64_t d = 0; d < all.documents(); ++d) {
    const int64_t begin = all.begins[static_cast<size_t>(d)], end = all.begins[static_cast<size_t>(d + 1)];
    put(parts.first, begin, std::min(end, cut));
    put(parts.second, std::max(begin, cut), end);
  }
  return parts;
}

// Rounds the weights for the inputs that a text gives them, and compares perplexities on the text's last
// tenth.
void quantize_for_text(const QuantizeArguments& arguments,
                       const std::function<void(const std::filesystem::path& folder)>& finish) {
  const DType dtype = *arguments.dtype;
  if (!in_blocks(dtype)) {
    throw UsageError(concat("--calibrate: expected --dtype of blocks, such as q4_0, found ",
                            weight_dtype_name(dtype), ", which is not calibrated"));
  }
  const auto exact = pipelines::open_language_model(arguments.model, {.dtype = DType::f32});
  const auto [read, held_out] = divided(
      read_lm_documents(arguments.calibrate, *exact, usual_bounds(arguments.model), data::OnBadLine::fail));
  if (read.tokens() + held_out.tokens() < 20 || read.labels() == 0 || held_out.labels() == 0) {
    throw DataError(concat(arguments.calibrate, ": expected text of 20 tokens or more, found ",
                           read.tokens() + held_out.tokens()));
  }
  const auto perplexity = [&, &documents = held_out](const models::LanguageModel& model) {
    return fixed(train::score_documents(model, documents).value().perplexity(), 3);
  };
  const std::string before = perplexity(*exact->model);
  const std::string rounded =
      perplexity(*pipelines::open_language_model(arguments.model, {.dtype = dtype})->model);
  std::string after;
  const bool shows = stderr_is_terminal();
  models::change_language_model(
      arguments.model, arguments.out,
      [&, &documents = read](const models::LanguageModel& model) {
        const auto began = std::chrono::steady_clock::now();
        train::LmCalibration options{.dtype = dtype};
        options.on_progress = [&](int64_t done, int64_t all) {
          if (!shows) return;
          const double spent =
              std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
          const double rest = spent / static_cast<double>(done) * static_cast<double>(all - done);
          std::cerr << "\r\x1b[K" << done << " of " << all << " matrices, ETA " << clock_time(rest)
                    << std::flush;
          if (done == all) std::cerr << "\r\x1b[K";
        };
        train::calibrate(model, documents, options);
        after = perplexity(model);
      },
      finish);
  say(concat("perplexity of the last tenth of ", arguments.calibrate, ": ", before, " in f32, ", rounded,
             " rounded, ", after, " calibrated"));
}

void quantize(const QuantizeArguments& arguments) {
  models::refuse_gguf(arguments.model, "model");
  const int64_t before = weight_bytes(arguments.model);
  const bool rounded = holds_rounded_weights(arguments.model);
  int64_t after = 0;
  bool proved = false;
  // Inside, so that an error leaves no folder that a second attempt would reject.
  const auto finish = [&](const std::filesystem::path& folder) {
    proved = pipelines::write_proof(folder);
    after = weight_bytes(folder);
  };
  if (arguments.calibrate.empty()) {
    models::quantize_folder(arguments.model, arguments.out, *arguments.dtype, finish);
  } else {
    quantize_for_text(arguments, finish);
  }
  say(concat(arguments.out, ": weights in ", weight_dtype_name(*arguments.dtype), ", ", bytes_text(after),
             " (", bytes_text(before), " in ", arguments.model, ")"));
  if (!proved)
    say(concat("no ", pipelines::kProofFile,
               ": the folder has no tokenizer or preprocessing to run the model with"));
  if (after <= before) return;
  say(concat("the copy is larger than the original",
             rounded ? ", but no more precise, because the original's weights were already rounded" : ""));
}

}  // namespace

void add_quantize(Command& app) {
  Command* command = add_command(
      app, "quantize",
      "Write a copy of a model folder with smaller weights: bf16 or f16 (half of f32); blocks of 32 numbers\n"
      "with a scale each, q8_0 (a quarter) or q4_0 (a seventh; also called int4) and ggml's other formats;\n"
      "int8 (a quarter, with a scale for each output: fastest with many rows). They take less memory and\n"
      "time to read. 16-bit folders also open in transformers; the others are qkv's own. Training may start\n"
      "from each (--from), from the rounded weights; the original is a better start. Measure the loss of\n"
      "quality with qkv evaluate.",
      "qkv quantize model --dtype q8_0 --out model-q8_0 && qkv generate model-q8_0 --prompt 'Once'");
  const auto arguments = std::make_shared<QuantizeArguments>();
  add_model_argument(*command, arguments->model, ModelPath::folder);
  Choices<DType> choices;
  for (const std::string& name : weight_dtype_names()) {
    if (name != "f32") choices.emplace_back(name, weight_dtype_from_name(name));
  }
  choices.emplace_back("int4", DType::q4_0);
  add_choice(*command, "--dtype", arguments->dtype, choices,
             "Dtype of the weights to write. A matrix whose rows do not divide into blocks (32 numbers,\n"
             "q4_k, q5_k and q6_k 256) becomes f16; token table and output matrix have 8 bits at least")
      ->required();
  add_option(
      *command, "--calibrate", arguments->calibrate, "FILE",
      "Text for which a language model's weights in blocks are rounded (GPTQ): each error is made up for\n"
      "by the weights that are still to be rounded. The first 65,536 tokens are read; the last tenth is\n"
      "left out, and its perplexity printed before and after (default: none, round to nearest)");
  add_option(*command, "--out", arguments->out, "DIR", "New folder: empty or nonexistent")->required();
  add_threads_option(*command);
  command->callback([arguments] { quantize(*arguments); });
}

}  // namespace qkv::apps
