// qkv export

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/messages.h"
#include "apps/load_options.h"
#include "apps/terminal.h"
#include "qkv/models/gguf/gguf_export.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/pipelines/chat.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"

namespace qkv::apps {

namespace {

struct ExportArguments {
  std::string model, to;
  DType encoding = DType::f16;
  bool json = false;
};

Choices<DType> encodings() {
  Choices<DType> choices;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1,
                            DType::q5_0, DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl})
    choices.emplace_back(name_of(dtype), dtype);
  return choices;
}

// A percentage on a line that is rewritten, on a terminal alone.
std::function<void(int64_t, int64_t)> progress_line() {
  if (!stderr_is_terminal()) return {};
  return [last = int64_t{-1}](int64_t done, int64_t all) mutable {
    const int64_t percent = all == 0 ? 100 : 100 * done / all;
    if (percent == last) return;
    last = percent;
    std::cerr << '\r' << percent << " %" << (done == all ? "\r     \r" : "") << std::flush;
  };
}

void export_model(const ExportArguments& arguments) {
  models::GgufExport options{.encoding = arguments.encoding, .progress = progress_line()};
  if (!models::is_gguf(arguments.model)) {
    options.chat_templates = pipelines::chat_templates(arguments.model);
    options.pooling = pipelines::gguf_pooling(arguments.model);
  }
  const models::GgufReport report = models::export_gguf(arguments.model, arguments.to, options);
  if (!report.fallbacks.empty()) {
    std::string others;
    for (const auto& [columns, dtype] : report.fallbacks)
      others += concat(others.empty() ? "" : ", ", name_of(dtype), " for rows of ", columns);
    say(concat("rows that are no whole blocks have another encoding: ", others));
  }
  if (!arguments.json) {
    say(concat(arguments.to, ": weights in ", name_of(arguments.encoding), ", ", bytes_text(report.bytes),
               ", ", fixed(8 * static_cast<double>(report.bytes) / static_cast<double>(report.numbers), 2),
               " bits a number"));
    return;
  }
  nlohmann::json tensors = nlohmann::json::object(), fallbacks = nlohmann::json::object();
  for (const auto& [dtype, count] : report.tensors) tensors[name_of(dtype)] = count;
  for (const auto& [columns, dtype] : report.fallbacks) fallbacks[std::to_string(columns)] = name_of(dtype);
  std::cout << nlohmann::json{{"file", arguments.to},          {"encoding", name_of(arguments.encoding)},
                              {"bytes", report.bytes},         {"parameters", report.numbers},
                              {"tensors", std::move(tensors)}, {"fallbacks", std::move(fallbacks)}}
                   .dump()
            << '\n';
}

}  // namespace

void add_export(Command& app) {
  Command* command = add_command(
      app, "export",
      "Write a language model or an encoder as a GGUF file, which llama.cpp and the programs around it "
      "open:\n"
      "a folder, trained here or not, or another GGUF file, whose weights get another encoding. Matrices "
      "have "
      "the\n"
      "encoding; norms, biases and vectors stay f32. With 4 and 5 bits the output projection is q6_k, and\n"
      "rows that are no whole blocks have the next type that fits: docs/gguf.md.",
      "qkv export model --to model-q8.gguf --encoding q8_0 && qkv generate model-q8.gguf 'Once upon'");
  const auto arguments = std::make_shared<ExportArguments>();
  add_model_argument(*command, arguments->model, ModelPath::folder_or_gguf);
  add_option(*command, "--to", arguments->to, "FILE", "GGUF file to write; its name ends in .gguf")
      ->required();
  add_choice(*command, "--encoding", arguments->encoding, encodings(), "Encoding of the matrices");
  command->add_flag("--json", arguments->json, "Print sizes and the number of tensors by encoding as JSON");
  add_threads_option(*command);
  command->callback([arguments] { export_model(*arguments); });
}

}  // namespace qkv::apps
