#include "qkv/pipelines/proof/proof.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"
#include "qkv/base/files.h"
#include "qkv/io/checksums.h"
#include "qkv/io/crc32c.h"
#include "qkv/kernels/instruction_set.h"
#include "qkv/kernels/limits.h"
#include "qkv/models/hub/verify.h"
#include "qkv/models/speech_model.h"
#include "qkv/pipelines/proof/files.h"
#include "qkv/pipelines/proof/numbers.h"
#include "qkv/tensor/device_memory.h"

namespace qkv::pipelines {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kFormat = 1, kMaxSamples = 24;
// For tokenizers: several scripts, digits, punctuation, white space.
constexpr const char* kTexts[] = {"The quick brown fox jumps over 13 lazy dogs.",
                                  "Zwölf große Boxkämpfer, 1984 – „ja“!",
                                  "人工智能 здравствуй नमस्ते 🙂",
                                  "  spaces\tand 3.14159e-2 (x_1), don't", "forty-two"};

std::string build() { return concat("qkv ", QKV_VERSION, ", compiler ", __VERSION__); }
std::string machine() {
  return concat(kernels::processor_name(), ", ", kernels::name_of(kernels::instruction_set()));
}

// A text's ids by the tokenizer's name.
using TextIds = std::vector<std::pair<std::string, std::vector<int32_t>>>;
TextIds ids_of(const models::TranslationModel& model, const std::string& text) {
  return {{"source", model.tokenizer->encode_source(text)}, {"target", model.tokenizer->encode_target(text)}};
}
TextIds ids_of(const LoadedImageEncoder& /*loaded*/, const std::string& /*text*/) { return {}; }
TextIds ids_of(const LoadedDualEncoder& loaded, const std::string& text) {
  return {{"ids", loaded.text->tokenizer.encode(text).ids}};
}
template <class Loaded>
TextIds ids_of(const Loaded& loaded, const std::string& text) {
  return {{"ids", loaded.tokenizer.encode(text).ids}};
}

TextIds ids_of(const OpenedModel& model, const std::string& text) {
  return std::visit([&](const auto& opened) { return ids_of(*opened, text); }, model);
}

std::string_view bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), tensor.bytes()};
}

// Evenly spaced elements, including the first and the last.
std::vector<int64_t> sample_places(int64_t elements) {
  std::vector<int64_t> places;
  const int64_t count = std::min(elements, kMaxSamples);
  for (int64_t i = 0; i < count; ++i) places.push_back(count == 1 ? 0 : i * (elements - 1) / (count - 1));
  return places;
}

Json outputs_json(const OpenedModel& model) {
  Json all = Json::array();
  for (const ProofCase& one : proof_cases(model)) {
    Json outputs = Json::array();
    for (const auto& [name, values] : run_proof_case(model, one)) {
      std::vector<double> samples;
      for (const float value : values.values()) {
        if (!std::isfinite(value)) {
          throw NumericError(concat("proof: case ", one.name, ": expected finite ", name, ", found ", value));
        }
      }
      for (const int64_t place : sample_places(values.numel()))
        samples.push_back(decimal(values.values()[static_cast<size_t>(place)]));
      outputs.push_back({{"name", name},
                         {"shape", {values.dim(0), values.dim(1)}},
                         {"crc32c", io::checksum_text(io::crc32c(bytes_of(values)))},
                         {"samples", samples}});
    }
    all.push_back({{"case", one.name}, {"source", one.source}, {"target", one.target}, {"outputs", outputs}});
  }
  return all;
}

struct OutputProof {
  std::string name, checksum;
  Shape shape;
  std::vector<float> samples;
};

struct CaseProof {
  ProofCase input;
  std::vector<OutputProof> outputs;
};

std::vector<int32_t> ids_from(const JsonValue& list) {
  std::vector<int32_t> ids;
  for (const JsonValue& id : list.items())
    ids.push_back(static_cast<int32_t>(id.integer(0, std::numeric_limits<int32_t>::max())));
  return ids;
}

CaseProof case_from(const JsonValue& object) {
  CaseProof proof{{object["case"].string(), ids_from(object["source"]), ids_from(object["target"])}, {}};
  for (const JsonValue& output : object["outputs"].items()) {
    const std::vector<int32_t> extents = ids_from(output["shape"]);
    if (extents.size() != 2) output["shape"].fail("[rows, width]");
    OutputProof one{output["name"].string(), output["crc32c"].string(), Shape{extents[0], extents[1]}, {}};
    for (const JsonValue& sample : output["samples"].items())
      one.samples.push_back(static_cast<float>(sample.number()));
    if (one.samples.size() != sample_places(one.shape.numel()).size())
      output["samples"].fail(concat(sample_places(one.shape.numel()).size(), " numbers"));
    proof.outputs.push_back(std::move(one));
  }
  return proof;
}

// The change of each output that rounding can cause. A rounded product of sums of n terms is the exact
// product of weights that differ by at most about sqrt(n) u (Higham and Mary 2019), so two machines that sum
// in different orders compute with weights at most twice as far apart; perturb_as_rounding() changes all
// weights by that much.
std::vector<double> changes_by_rounding(const OpenedModel& perturbed, const CaseProof& proof,
                                        const ProofOutputs& found) {
  std::vector<double> changes;
  const ProofOutputs moved = run_proof_case(perturbed, proof.input);
  for (size_t i = 0; i < found.size(); ++i) {
    double most = 0;
    for (int64_t e = 0; e < found[i].second.numel(); ++e) {
      const auto at = static_cast<size_t>(e);
      most = std::max(
          most, static_cast<double>(std::fabs(moved[i].second.values()[at] - found[i].second.values()[at])));
    }
    changes.push_back(most);
  }
  return changes;
}

struct ParsedProof {
  struct Text {
    std::string text;
    TextIds ids;
  };
  std::string build, machine;
  std::vector<FileProof> files;
  std::vector<VocabularyProof> vocabularies;
  std::vector<Text> texts;
  std::vector<CaseProof> cases;
};

// Throws DataError naming the part that is malformed.
ParsedProof parse_proof(const JsonValue& object) {
  if (const int64_t format = object["format"].integer(); format != kFormat)
    throw DataError(concat(object.path(), ": expected format ", kFormat, ", found ", format));
  ParsedProof proof;
  proof.build = object["build"].string();
  proof.machine = object["machine"].string();
  object["files"].members([&](std::string_view name, const JsonValue& value) {
    FileProof file{std::string(name), value["crc32c"].string(), {}};
    if (const auto fields = value.find("fields")) {
      fields->members([&](std::string_view key, const JsonValue& excerpt) {
        file.fields.emplace_back(key, excerpt.string());
      });
    }
    proof.files.push_back(std::move(file));
  });
  for (const JsonValue& one : object["vocabularies"].items()) {
    proof.vocabularies.push_back({one["name"].string(),
                                  one["size"].integer(0, std::numeric_limits<int32_t>::max()),
                                  one["rows"].string(), one["columns"].string()});
  }
  for (const JsonValue& one : object["texts"].items()) {
    ParsedProof::Text text{one["text"].string(), {}};
    one.members([&](std::string_view name, const JsonValue& value) {
      if (name != "text") text.ids.emplace_back(name, ids_from(value));
    });
    proof.texts.push_back(std::move(text));
  }
  for (const JsonValue& one : object["numbers"].items()) proof.cases.push_back(case_from(one));
  return proof;
}

class Checker {
 public:
  Checker(const fs::path& folder, ParsedProof proof, Device device)
      : folder_(folder), device_(device), proof_(std::move(proof)) {
    same_machine_ = device == Device::cpu && proof_.build == build() && proof_.machine == machine();
  }

  ProofReport run() {
    conclude(compare_files(folder_, proof_.files), concat("files: ", proof_.files.size(), " as at export"));
    check_weights();
    std::optional<OpenedModel> model;
    attempt("the folder cannot be opened: ", [&] { model = open_model(folder_, {.device = device_}); });
    if (!model) return std::move(report_);
    attempt("texts: ", [&] { check_texts(*model); });
    attempt("outputs cannot be computed: ", [&] { check_numbers(*model); });
    return std::move(report_);
  }

 private:
  template <class Action>
  void attempt(const char* what, const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      report_.parted.push_back(concat(what, error.what()));
    }
  }

  // Adds the differences, or `held` if there are none.
  void conclude(std::vector<std::string> parted, const std::string& held) {
    if (parted.empty()) report_.held.push_back(held);
    std::ranges::move(parted, std::back_inserter(report_.parted));
  }

  void check_weights() {
    attempt("", [&] {
      const io::ChecksumReport sums = models::verify_weights(folder_).front().report;
      std::vector<std::string> parted;
      for (const std::string& name : sums.differing)
        parted.push_back(concat("model.safetensors: ", name, ": its bytes do not match their checksum"));
      for (const std::string& name : sums.missing)
        parted.push_back(concat("model.safetensors: ", name, ": expected this tensor, found none"));
      if (sums.carries_checksums() && !sums.unchecked.empty()) {
        parted.push_back(
            concat("model.safetensors: ", sums.unchecked.front(), ": expected a checksum, found none"));
      }
      conclude(std::move(parted), sums.carries_checksums()
                                      ? concat("weights: ", sums.matching, " tensors match their checksums")
                                      : "weights: the file carries no checksums");
    });
  }

  void check_texts(const OpenedModel& model) {
    std::vector<std::string> parted = compare_vocabularies(model, proof_.vocabularies);
    for (const auto& [text, expected] : proof_.texts) {
      const TextIds found = ids_of(model, text);
      for (size_t i = 0; i < std::min(expected.size(), found.size()); ++i) {
        compare_ids(concat("text ", quoted_json(text), ": ", found[i].first), expected[i].second,
                    found[i].second, parted);
      }
    }
    if (proof_.texts.empty() && parted.empty()) return;  // images
    conclude(std::move(parted), concat("tokenizer: ", proof_.vocabularies.size(),
                                       proof_.vocabularies.size() == 1 ? " vocabulary, " : " vocabularies, ",
                                       proof_.texts.size(), " texts"));
  }

  static void compare_ids(const std::string& what, const std::vector<int32_t>& expected,
                          const std::vector<int32_t>& found, std::vector<std::string>& parted) {
    const auto [was, is] = std::ranges::mismatch(expected, found);
    if (was == expected.end() && is == found.end()) return;
    const auto shown = [](auto at, auto end) { return at == end ? "the end" : concat("id ", *at); };
    parted.push_back(concat(what, ": token ", was - expected.begin(), ": expected ",
                            shown(was, expected.end()), ", found ", shown(is, found.end())));
  }

  void check_numbers(const OpenedModel& model) {
    std::vector<std::string> parted;
    int64_t outputs = 0;
    double worst = 0;  // difference over bound
    std::optional<OpenedModel> perturbed;
    for (const CaseProof& expected : proof_.cases) {
      const ProofOutputs found = run_proof_case(model, expected.input);
      if (found.size() != expected.outputs.size()) {
        parted.push_back(concat("case ", expected.input.name, ": expected ", expected.outputs.size(),
                                " outputs, found ", found.size()));
        continue;
      }
      std::vector<double> bounds(found.size(), 0.0);
      if (!same_machine_) {
        if (!perturbed) {
          perturbed = open_model(folder_);
          perturb_as_rounding(*perturbed);
        }
        bounds = changes_by_rounding(*perturbed, expected, found);
        for (double& bound : bounds) bound *= kSafety;
      }
      for (size_t i = 0; i < found.size(); ++i) {
        const std::string where = concat("case ", expected.input.name, ", ", expected.outputs[i].name);
        worst = std::max(worst, compare(where, expected.outputs[i], found[i].second, bounds[i], parted));
        ++outputs;
      }
    }
    conclude(std::move(parted), same_machine_
                                    ? concat("numbers: ", outputs, " outputs have the same bits")
                                    : concat("numbers: ", outputs, " outputs differ by at most ", worst,
                                             " of the rounding bound; the proof was written on ",
                                             proof_.machine, ", ", proof_.build));
  }

  // The largest difference of the samples, divided by the bound.
  double compare(const std::string& where, const OutputProof& expected, const Tensor& found, double bound,
                 std::vector<std::string>& parted) const {
    if (found.shape() != expected.shape) {
      parted.push_back(concat(where, ": expected shape ", expected.shape, ", found ", found.shape()));
      return 0;
    }
    const std::string checksum = io::checksum_text(io::crc32c(bytes_of(found)));
    if (checksum == expected.checksum) return 0;
    const std::vector<int64_t> places = sample_places(found.numel());
    double most = -1;
    size_t at = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      const float value = found.values()[static_cast<size_t>(places[i])];
      const double difference =
          std::fabs(static_cast<double>(value) - static_cast<double>(expected.samples[i]));
      if (difference > most || std::isnan(difference)) most = difference, at = i;
      if (std::isnan(difference)) break;
    }
    if (!same_machine_ && most <= bound) return bound > 0 ? most / bound : 0;
    const int64_t row = places[at] / found.dim(1), column = places[at] % found.dim(1);
    const float value = found.values()[static_cast<size_t>(places[at])];
    parted.push_back(
        concat(where, ": row ", row, ", column ", column, ": expected ", field_text(expected.samples[at]),
               same_machine_ ? " to the bit" : concat(" +- ", bound), ", found ", field_text(value),
               same_machine_ && most == 0 ? ", and other elements differ" : ""));
    return 0;
  }

  // Safety factor on the measured change, because one pseudo-random perturbation is not the worst case.
  static constexpr double kSafety = 4;

  fs::path folder_;
  Device device_;
  ParsedProof proof_;
  bool same_machine_ = false;
  ProofReport report_;
};

}  // namespace

bool write_proof(const fs::path& folder) {
  if (!has_inputs(folder)) return false;
  const OpenedModel model = open_model(folder);
  Json proof{{"format", kFormat}, {"build", build()}, {"machine", machine()}, {"files", Json::object()}};
  for (const FileProof& file : prove_files(folder)) {
    Json& one = proof["files"][file.name] = {{"crc32c", file.checksum}};
    for (const auto& [key, excerpt] : file.fields) one["fields"][key] = excerpt;
  }
  proof["vocabularies"] = Json::array();
  for (const VocabularyProof& one : prove_vocabularies(model)) {
    proof["vocabularies"].push_back(
        {{"name", one.name}, {"size", one.size}, {"rows", one.rows}, {"columns", one.columns}});
  }
  proof["texts"] = Json::array();
  for (const char* const text : kTexts) {
    Json one{{"text", text}};
    for (auto& [name, ids] : ids_of(model, text)) one[name] = std::move(ids);
    if (one.size() > 1) proof["texts"].push_back(std::move(one));
  }
  proof["numbers"] = outputs_json(model);
  write_file_atomically(folder / kProofFile,
                        proof.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  return true;
}

ProofReport check_proof(const fs::path& folder, Device device) {
  const fs::path path = folder / kProofFile;
  if (!fs::exists(path)) {
    throw IoError(concat(path.string(), ": expected the proof that qkv writes beside a model, found none; ",
                         "qkv train, qkv quantize and qkv merge write it"));
  }
  if (device != Device::cpu) device_memory(device);  // a device that cannot be used is no difference
  return Checker(folder, parse_proof(parse_json(read_file(path), path.string())), device).run();
}

}  // namespace qkv::pipelines
