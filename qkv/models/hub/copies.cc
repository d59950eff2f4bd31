#include "qkv/models/hub/copies.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/dual_encoder.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/models/hub/parts/wrappers.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/translation_model.h"
#include "qkv/models/vision_tower.h"
#include "qkv/nn/low_rank.h"

namespace qkv::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPipeline = "modules.json";  // of sentence-transformers

// Files to copy in any case: small text files, and SentencePiece models.
bool goes_along(const fs::path& file) {
  constexpr std::array<std::string_view, 6> kKinds{".json", ".txt", ".model", ".spm", ".jinja", ".md"};
  const std::string name = file.filename().string();
  return std::ranges::find(kKinds, file.extension().string()) != kKinds.end() && name != "config.json" &&
         name != kProofFile && !name.ends_with(".index.json");
}

// The preparation of images, of no use beside the language model alone.
bool is_of_images(const fs::path& file) {
  return file.filename().string().ends_with("processor_config.json");
}

// chat_template.json, which transformers reads beside a processor only, as the tokenizer's file.
void keep_template(const fs::path& to) {
  constexpr const char *kOld = "chat_template.json", *kNew = "chat_template.jinja";
  const auto found = [&](const char* file) {
    const nlohmann::json all = fs::exists(to / file)
                                   ? nlohmann::json::parse(read_file(to / file), nullptr, false)
                                   : nlohmann::json();
    return all.is_object() ? all.value("chat_template", nlohmann::json()) : nlohmann::json();
  };
  const nlohmann::json own = found(kOld);
  if (!own.is_string() || !found("tokenizer_config.json").is_null() || fs::exists(to / kNew)) return;
  write_file_atomically(to / kNew, own.get<std::string>());
  fs::remove(to / kOld);
}

std::string whole_type(const fs::path& from) {
  return ConfigReader(read_file(from / "config.json"), (from / "config.json").string())
      .string("model_type", "");
}
bool is_wrapped(const fs::path& from) { return find_wrapper(whole_type(from)) != nullptr; }
bool has_images(const fs::path& from) { return reads_images(whole_type(from)); }

void copy_companions(const fs::path& from, const fs::path& to) {
  const bool alone = is_wrapped(from) && !has_images(from);
  for (const fs::path& path : files_in(from)) {
    if (fs::is_regular_file(path) && goes_along(path) && !(alone && is_of_images(path)))
      write_file_atomically(to / path.filename(), read_file(path));
  }
  if (alone) keep_template(to);
}

// The module folders of sentence-transformers listed in modules.json; folders of modules without files may be
// missing.
std::vector<fs::path> module_folders(const fs::path& from) {
  std::vector<fs::path> folders;
  const fs::path modules = from / kPipeline;
  if (!fs::exists(modules)) return folders;
  for (const ConfigReader& module : ConfigReader::list(read_file(modules), modules.string())) {
    const fs::path folder = module.string("path");
    if (folder.is_absolute() || (!folder.empty() && *folder.lexically_normal().begin() == "..")) {
      module.reject("path", "a folder within the model's");
    }
    std::error_code too_long;  // an invalid folder name does not exist
    if (!folder.empty() && fs::is_directory(from / folder, too_long)) folders.push_back(folder);
  }
  return folders;
}

void copy_modules(const fs::path& from, const fs::path& to, const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    make_writable_folder(to / folder);
    for (const fs::path& path : files_in(from / folder)) {
      if (fs::is_regular_file(path)) write_file_atomically(to / folder / path.filename(), read_file(path));
    }
  }
}

template <class Model>
void merge_updates(const Model& model) {
  model.visit(
      [](const std::string& name, const nn::Parameter& parameter) { nn::merge_low_rank(name, parameter); });
}

// Settings of how texts are read, which are the adapter's where it has them: it was trained with them.
void take_reading(const fs::path& adapter, const fs::path& to) {
  using nlohmann::ordered_json;
  constexpr const char* kFile = "tokenizer_config.json";
  if (!fs::exists(adapter / kFile)) return;
  const auto parsed = [](const fs::path& path) {
    return fs::exists(path) ? ordered_json::parse(read_file(path), nullptr, false) : ordered_json::object();
  };
  const ordered_json own = parsed(adapter / kFile), base = parsed(to / kFile);
  if (!own.is_object() || !base.is_object()) return;
  ordered_json merged = base;
  for (const char* key : {"model_max_length", "qkv_documents"}) {
    if (own.contains(key)) merged[key] = own[key];
  }
  if (merged != base) write_file_atomically(to / kFile, merged.dump(2) + "\n");
}

// All files but config.json and the weights. An adapter of sentence embeddings has modules of its own.
void copy_others(const fs::path& from, const fs::path& to, const LoadOptions& options) {
  const bool of_adapter = !options.adapter.empty() && fs::exists(options.adapter / kPipeline);
  const fs::path& described = of_adapter ? options.adapter : from;
  const std::vector<fs::path> modules = module_folders(described);
  make_writable_folder(to);
  copy_companions(from, to);
  if (!options.adapter.empty()) take_reading(options.adapter, to);
  if (of_adapter) {
    for (const char* file : {kPipeline, "sentence_bert_config.json"})
      write_file_atomically(to / file, read_file(described / file));
    fs::remove(to / "config_sentence_transformers.json");
  }
  copy_modules(described, to, modules);
  if (const fs::path templates = "additional_chat_templates"; fs::is_directory(from / templates))
    copy_modules(from, to, {templates});
}

void save_language(const fs::path& to, const LanguageModel& model, std::string_view model_type,
                   const fs::path& from) {
  (has_images(from) ? save_with_images : save_language_model)(to, model, model_type, from);
}

// `save` writes config.json and the weights.
template <class Model, class Save>
void write(const fs::path& from, const fs::path& to, const LoadOptions& options, const Model& model,
           const Save& save) {
  merge_updates(*model);
  copy_others(from, to, options);
  save(to, *model, family_of(from), from);
}

void write_translation(const fs::path& from, const fs::path& to, const LoadOptions& options) {
  const TranslationModel model = load_translation_model(from, options);
  merge_updates(*model.transformer);
  copy_others(from, to, options);
  save_transformer(to, *model.transformer, model.generation, from);
}

// A folder that is written within the new one, until it is complete.
constexpr std::string_view kPartialCopy = "copy.partial-";

// A copy that was killed: the folder was empty or nonexistent before.
bool is_interrupted_copy(const fs::path& folder) {
  return std::ranges::any_of(files_in(folder), [](const fs::path& path) {
    return path.filename().string().starts_with(kPartialCopy);
  });
}

// A new folder, empty, nonexistent or of an interrupted copy, which stays empty or nonexistent unless the
// work is finished: a second attempt is possible, however the first one ends.
class NewFolder {
 public:
  explicit NewFolder(fs::path folder) : folder_(std::move(folder)), existed_(fs::exists(folder_)) {
    make_writable_folder(folder_);
    lock_.emplace(folder_);
    remove_contents();
    partial_ = folder_ / concat(kPartialCopy, ::getpid());
    make_writable_folder(partial_);
  }
  ~NewFolder() {
    if (done_) return;
    try {
      remove_contents();
      if (!existed_) fs::remove(folder_);
    } catch (const std::exception&) {  // the first error is reported
    }
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& partial() const { return partial_; }
  void finish() {
    for (const fs::path& path : files_in(partial_)) fs::rename(path, folder_ / path.filename());
    fs::remove(partial_);
    flush_folder(folder_);
    done_ = true;
  }

 private:
  void remove_contents() const {
    for (const fs::path& path : files_in(folder_)) fs::remove_all(path);
  }

  fs::path folder_, partial_;
  bool existed_, done_ = false;
  std::optional<FolderLock> lock_;
};

using Change = std::function<void(const LanguageModel& model)>;

void write_changed(const fs::path& from, const fs::path& to, const LoadOptions& options,
                   const Change& change) {
  if (folder_kind(from) != FolderKind::language)
    throw UsageError(concat(from.string(), ": expected a language model, found another kind of model"));
  const auto model = load_language_model(from, options);
  change(*model);
  write(from, to, options, model, save_language);
}

void write_copy(const fs::path& from, const fs::path& to, const LoadOptions& options, const Change& change) {
  if (change) return write_changed(from, to, options, change);
  switch (folder_kind(from)) {
    case FolderKind::translation:
      return write_translation(from, to, options);
    case FolderKind::language:
      return write(from, to, options, load_language_model(from, options), save_language);
    case FolderKind::encoder:
      return write(from, to, options, load_text_encoder(from, options), save_text_encoder);
    case FolderKind::image:
      return write(from, to, options, load_image_encoder(from, options), save_image_encoder);
    case FolderKind::speech:
      return write(from, to, options, load_transformer(from, options),
                   [](const fs::path& folder, const Transformer& model, std::string_view /*model_type*/,
                      const fs::path& original) { save_transformer(folder, model, {}, original); });
    case FolderKind::image_text:
      copy_others(from, to, options);
      return save_dual_encoder(to, load_dual_encoder(from, options), family_of(from), from);
  }
}

void copy_checked(const fs::path& from, const fs::path& to, const LoadOptions& options, const Change& change,
                  const std::function<void(const fs::path& folder)>& finish) {
  refuse_gguf(from, "model");
  if (fs::exists(to) && !(fs::is_directory(to) && (fs::is_empty(to) || is_interrupted_copy(to)))) {
    throw UsageError(concat(to.string(), ": expected an empty folder or none, found ",
                            fs::is_directory(to) ? "one with files in it" : "a file"));
  }
  NewFolder folder(to);
  write_copy(from, folder.partial(), options, change);
  if (finish) finish(folder.partial());
  folder.finish();
}

// Writes the model in `from`, loaded with these options, to the folder `to`.
void copy_folder(const fs::path& from, const fs::path& to, const LoadOptions& options, const Change& change,
                 const std::function<void(const fs::path& folder)>& finish) {
  with_io_errors([&] { copy_checked(from, to, options, change, finish); });
}

}  // namespace

void quantize_folder(const fs::path& from, const fs::path& to, DType dtype,
                     const std::function<void(const fs::path& folder)>& finish) {
  copy_folder(from, to, {.dtype = dtype}, {}, finish);
}

void change_language_model(const fs::path& from, const fs::path& to, const Change& change,
                           const std::function<void(const fs::path& folder)>& finish) {
  copy_folder(from, to, {.dtype = DType::f32}, change, finish);
}

void merge_adapter(const fs::path& from, const fs::path& adapter, const fs::path& to,
                   const std::function<void(const fs::path& folder)>& finish) {
  copy_folder(from, to, {.dtype = DType::f32, .adapter = adapter}, {}, finish);
}

}  // namespace qkv::models
