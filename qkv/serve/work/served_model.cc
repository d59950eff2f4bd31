#include "qkv/serve/work/served_model.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"
#include "qkv/explain/captured_report.h"
#include "qkv/explain/tiles.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/speech_model.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"
#include "qkv/pipelines/text_attention.h"

namespace qkv::serve {
namespace {

// ISO 639-2 codes of Marian's folders as the two-letter codes that clients use.
std::string two_letters(const std::string& code) {
  using Pair = std::pair<std::string_view, const char*>;
  static constexpr std::array kCodes{
      Pair{"eng", "en"}, Pair{"deu", "de"}, Pair{"ger", "de"}, Pair{"fra", "fr"}, Pair{"fre", "fr"},
      Pair{"spa", "es"}, Pair{"ita", "it"}, Pair{"por", "pt"}, Pair{"nld", "nl"}, Pair{"rus", "ru"},
      Pair{"zho", "zh"}, Pair{"jpn", "ja"}, Pair{"ara", "ar"}, Pair{"pol", "pl"}, Pair{"swe", "sv"},
      Pair{"fin", "fi"}, Pair{"dan", "da"}, Pair{"ces", "cs"}, Pair{"ukr", "uk"}, Pair{"tur", "tr"}};
  const auto found = std::ranges::find(kCodes, code, &Pair::first);
  return found == kCodes.end() ? code : found->second;
}

Languages languages_of(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(file)) return {};
  const JsonValue config = parse_json(read_file(file), file.string());
  return {two_letters(config.string_or("source_lang", "")), two_letters(config.string_or("target_lang", ""))};
}

struct Opener {
  Pipelines& pipelines;
  std::string& kind;
  std::vector<std::string>& tasks;

  void operator()(const std::shared_ptr<const models::TranslationModel>& model) const {
    kind = "translation";
    tasks = {"translate", "score", "attention"};
    pipelines.translator.emplace(model);
    pipelines.pair_scorer.emplace(model);
  }
  void operator()(const std::shared_ptr<const qkv::pipelines::LoadedLanguageModel>& model) const {
    kind = "language";
    tasks = {"generate", "score", "attention"};
    try {  // A model without a template, or with one that cannot be read, does everything else.
      pipelines.chat.emplace(model->folder, model->tokenizer);
      tasks.emplace_back("chat");
      pipelines.calls = qkv::pipelines::call_format(*pipelines.chat, *model);
    } catch (const DataError& error) {
      pipelines.no_chat = error.what();
    }
    pipelines.generator.emplace(model);
    pipelines.scorer.emplace(model);
  }
  void operator()(const std::shared_ptr<const qkv::pipelines::LoadedTextEncoder>& model) const {
    kind = "text";
    tasks = {"attention"};
    pipelines.embedder.emplace(model);
    const models::TextEncoderConfig& config = model->model->config();
    using qkv::pipelines::SentenceModules;
    const SentenceModules modules = qkv::pipelines::sentence_modules(model->folder);
    if (modules == SentenceModules::none || modules == SentenceModules::dense) {
      pipelines.embed_options = pipelines.embedder->default_options();
      tasks.insert(tasks.begin(), "embed");
    }
    if (config.masked_language && (modules == SentenceModules::none || modules == SentenceModules::sparse)) {
      pipelines.sparse_embedder.emplace(model);
      pipelines.sparse_embed_options = pipelines.sparse_embedder->default_options();
      tasks.emplace_back("embed-sparse");
    }
    if (config.labelled == models::ClassificationTarget::texts) {
      pipelines.classifier.emplace(model);
      tasks.emplace_back("classify");
      if (qkv::pipelines::ZeroShotClassifier::fits(config)) pipelines.zero_shot.emplace(model);
      if (config.labels.size() == 1) {
        pipelines.reranker.emplace(model);
        pipelines.rerank_options = pipelines.reranker->default_options();
        tasks.emplace_back("rerank");
      }
    }
    if (config.labelled == models::ClassificationTarget::tokens) {
      pipelines.tagger.emplace(model);
      tasks.emplace_back("tag");
    }
    if (config.labelled == models::ClassificationTarget::spans) {
      pipelines.answerer.emplace(model);
      tasks.emplace_back("answer");
    }
    if (config.masked_language && model->tokenizer.special_tokens().mask) {
      pipelines.mask_filler.emplace(model);
      tasks.emplace_back("fill-mask");
    }
  }
  void operator()(const std::shared_ptr<const models::SpeechModel>& model) const {
    kind = "speech";
    tasks = {"transcribe"};
    pipelines.transcriber.emplace(model);
  }
  void operator()(const std::shared_ptr<const qkv::pipelines::LoadedImageEncoder>& model) const {
    kind = "image";
    tasks = {"embed-image", "attention-image"};
    pipelines.image_embedder.emplace(model);
    pipelines.image_embed_options = pipelines.image_embedder->default_options();
    if (!model->model->config().labels.empty()) {
      pipelines.image_classifier.emplace(model);
      tasks.emplace_back("classify-image");
    }
  }
  void operator()(const std::shared_ptr<const qkv::pipelines::LoadedDualEncoder>& model) const {
    (*this)(model->image);
    std::vector<std::string> of_images = std::move(tasks);
    (*this)(model->text);
    kind = "image-text";
    tasks.insert(tasks.end(), of_images.begin(), of_images.end());
    tasks.emplace_back("classify-image");
    pipelines.image_zero_shot.emplace(model);
  }
};

DType weights_of(const models::TranslationModel& model) { return models::weight_dtype(*model.transformer); }
DType weights_of(const models::SpeechModel& model) { return models::weight_dtype(*model.transformer); }

template <class Loaded>
DType weights_of(const Loaded& loaded) {
  return models::weight_dtype(*loaded.model);
}

struct Attention {
  const std::string& text;
  const std::string& target;
  const std::string& pair;
  std::optional<int64_t> tile;
  const std::string& name;

  explain::AttentionReport operator()(const std::shared_ptr<const models::TranslationModel>& model) const {
    require_none("text_pair", pair, " translates one text");
    if (tile.value_or(0) != 0) throw UsageError(concat("tile: not for ", name, ", which translates"));
    return explain::attention_report(
        pipelines::capture_text(*model, text, target, pipelines::default_options(*model).search), name);
  }
  template <class Handle>  // of images, of audio
  explain::AttentionReport operator()(const Handle& /*model*/) const {
    throw UsageError(concat("attention: expected a model that reads text, found ", name));
  }
  explain::AttentionReport operator()(
      const std::shared_ptr<const pipelines::LoadedLanguageModel>& model) const {
    require_none("target", target, " does not translate");
    require_none("text_pair", pair, " reads one text");
    require_few_tiles(model->tokenizer);
    return explain::tiled_report(*model, text, tile.value_or(0), name);
  }
  explain::AttentionReport operator()(
      const std::shared_ptr<const pipelines::LoadedTextEncoder>& model) const {
    require_none("target", target, " does not translate");
    require_few_tiles(model->tokenizer);
    return explain::tiled_report(*model, text, pair, tile.value_or(0), name);
  }

  explain::AttentionReport operator()(
      const std::shared_ptr<const pipelines::LoadedDualEncoder>& model) const {
    return (*this)(model->text);
  }

  // An answer grows with the square of the tiles.
  void require_few_tiles(const text::Tokenizer& tokenizer) const {
    if (!tile || *tile < 1) return;
    for (const std::string& one : {text, pair}) {
      if (const std::string error = pipelines::text_error(one); !error.empty())
        throw DataError(concat("text: ", error));
    }
    const int64_t tokens = std::ssize(tokenizer.encode(text).ids) + std::ssize(tokenizer.encode(pair).ids);
    const int64_t least = (tokens + explain::kMaxTokens - 1) / explain::kMaxTokens;
    if (*tile < least) {
      throw UsageError(concat("tile: expected at least ", least, ", for ", explain::kMaxTokens, " tiles of ",
                              tokens, " tokens at most, or 0, found ", *tile));
    }
  }
  void require_none(const char* field, const std::string& value, const char* why) const {
    if (!value.empty()) throw UsageError(concat(field, ": not for ", name, ", which", why));
  }
};

uint64_t last_mapped_file() {
  const std::vector<MappedFileState> files = mapped_files();
  return files.empty() ? 0 : files.back().id;
}

std::vector<MappedFileState> files_since(uint64_t first) {
  std::vector<MappedFileState> files = mapped_files();
  std::erase_if(files, [first](const MappedFileState& file) { return file.id < first; });
  return files;
}

std::unique_ptr<TextWorker> make_text_encoder(const models::TextEncoder& model,
                                              const EncodeOptions& options) {
  return std::make_unique<TextWorker>(
      [&model, batch_tokens = options.batch_tokens](const auto& requests, const auto& use) {
        qkv::pipelines::encode(model, requests, use, batch_tokens);
      },
      [](const qkv::pipelines::EncoderRequest& request) { return std::ssize(request.encoding.ids); },
      options);
}

// All images have the model's size.
std::unique_ptr<ImageWorker> make_image_encoder(const qkv::pipelines::ImageEncoderPipeline& pipeline,
                                                const EncodeOptions& options) {
  return std::make_unique<ImageWorker>(
      [&pipeline](const auto& requests, const auto& use) { pipeline.encode(requests, use); },
      [tokens = pipeline.model().config().tokens()](const auto& /*request*/) { return tokens; }, options);
}

}  // namespace

ServedModel::ServedModel(std::string name, std::filesystem::path folder, const models::LoadOptions& load,
                         const WorkOptions& options)
    : name_(std::move(name)),
      folder_(std::move(folder)),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      audio_seconds_(options.audio_seconds),
      first_file_(last_mapped_file() + 1),
      opened_(qkv::pipelines::open_model(folder_, load)),
      files_(files_since(first_file_)) {
  options.engine.validate();
  options.step_model.validate();
  std::visit(Opener{pipelines_, kind_, tasks_}, opened_);
  serial_ = std::make_unique<SerialWorker>(options.queue);
  const auto decode = [&](const auto& pipeline) {
    const auto engine = [&pipeline, options] {
      return pipeline.make_engine(options.engine, options.step_model);
    };
    engine();  // refuses here, and not on the worker's thread, options that do not fit the model
    decoder_ = std::make_unique<DecodeWorker>(engine, options.engine, options.queue);
  };
  if (pipelines_.translator) {
    languages_ = languages_of(folder_);
    decode(*pipelines_.translator);
  } else if (pipelines_.generator) {
    decode(*pipelines_.generator);
  } else if (pipelines_.transcriber) {
    decode(*pipelines_.transcriber);
  } else if (pipelines_.embedder) {
    text_encoder_ = make_text_encoder(pipelines_.embedder->model(), options.encode);
  }
  if (pipelines_.image_embedder) {
    image_encoder_ = make_image_encoder(*pipelines_.image_embedder, options.encode);
  }
}

bool ServedModel::has(std::string_view task) const { return std::ranges::find(tasks_, task) != tasks_.end(); }

void ServedModel::require_unchanged() const {
  const auto changed = std::ranges::find_if(files_, changed_in_place);
  if (changed == files_.end()) return;
  throw HttpError(503,
                  concat("model '", name_, "': ", changed->path.string(),
                         " was written while it was open; replace files by renaming, and reload"),
                  "server_error", "model_changed");
}

const text::Tokenizer* ServedModel::tokenizer() const {
  if (pipelines_.embedder) return &pipelines_.embedder->tokenizer();
  if (pipelines_.generator) return &pipelines_.generator->model().tokenizer;
  return nullptr;
}

std::optional<int64_t> ServedModel::max_input_tokens() const {
  if (pipelines_.embedder) return pipelines_.embedder->model().config().max_positions;
  if (pipelines_.generator) return pipelines_.generator->model().model->config().max_positions;
  if (pipelines_.translator) return pipelines_.translator->model().config.max_tokens();
  return std::nullopt;
}

DType ServedModel::weight_dtype() const {
  return std::visit([](const auto& handle) { return weights_of(*handle); }, opened_);
}

explain::AttentionReport ServedModel::attention(const std::string& text, const std::string& target,
                                                const std::string& pair, std::optional<int64_t> tile) const {
  return std::visit(Attention{text, target, pair, tile, name_}, opened_);
}

void ServedModel::for_each_worker(
    const std::function<void(const char* worker, const WorkerCounters& counters)>& use) const {
  if (decoder_) use("decode", decoder_->counters());
  if (text_encoder_) use("encode", text_encoder_->counters());
  if (image_encoder_) use(text_encoder_ ? "encode-image" : "encode", image_encoder_->counters());
  use("serial", serial_->counters());
}

}  // namespace qkv::serve
