#pragma once
// A model folder at work: its pipelines, and the workers that run them for all clients.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qkv/base/mapped_files.h"
#include "qkv/explain/attention_report.h"
#include "qkv/pipelines/answers/answer.h"
#include "qkv/pipelines/chat.h"
#include "qkv/pipelines/classify.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/pipelines/rerank.h"
#include "qkv/pipelines/score.h"
#include "qkv/pipelines/speech/transcribe.h"
#include "qkv/pipelines/tag.h"
#include "qkv/pipelines/tools/call_format.h"
#include "qkv/pipelines/translate.h"
#include "qkv/pipelines/zero_shot/image_zero_shot.h"
#include "qkv/pipelines/zero_shot/zero_shot.h"
#include "qkv/serve/work/decode_worker.h"
#include "qkv/serve/work/encode_worker.h"
#include "qkv/serve/work/places.h"
#include "qkv/serve/work/serial_worker.h"

namespace qkv::serve {

struct WorkOptions {
  search::EngineOptions engine = {.prefix_bytes = 256 << 20};
  search::StepModelOptions step_model = {};
  EncodeOptions encode = {};
  size_t queue = 1024;           // requests that wait for the decoder, and for the serial worker, at most
  int64_t audio_seconds = 7200;  // of a sound file, at most
};

// The pipelines that a model has; others are empty.
struct Pipelines {
  std::optional<pipelines::Translator> translator;
  std::optional<pipelines::PairScorer> pair_scorer;
  std::optional<pipelines::TextGenerator> generator;
  std::optional<pipelines::TextScorer> scorer;
  std::optional<pipelines::ChatTemplate> chat;
  std::optional<pipelines::CallFormat> calls;  // of tools in chats
  std::string no_chat;  // why a language model has no chat template, or none that can be read
  std::optional<pipelines::Transcriber> transcriber;
  std::optional<pipelines::TextEmbedder> embedder;  // of all text encoders
  pipelines::TextEmbedOptions embed_options;        // the folder's
  std::optional<pipelines::SparseEmbedder> sparse_embedder;
  pipelines::SparseEmbedOptions sparse_embed_options;  // the folder's
  std::optional<pipelines::TextClassifier> classifier;
  std::optional<pipelines::ZeroShotClassifier> zero_shot;
  std::optional<pipelines::Reranker> reranker;
  pipelines::RerankOptions rerank_options;  // the folder's
  std::optional<pipelines::TokenTagger> tagger;
  std::optional<pipelines::QuestionAnswerer> answerer;
  std::optional<pipelines::MaskFiller> mask_filler;
  std::optional<pipelines::ImageClassifier> image_classifier;
  std::optional<pipelines::ImageEmbedder> image_embedder;
  pipelines::EmbedOptions image_embed_options;  // the model's
  std::optional<pipelines::ImageZeroShotClassifier> image_zero_shot;
};

// The languages that a translation folder names in tokenizer_config.json.
struct Languages {
  std::string source, target;  // ISO 639-1 codes, or as the folder names them; empty: not named
};

// Threads may share a ServedModel. Calls hold it (Call::keep), so that a model that is replaced lives until
// its last call ends.
class ServedModel {
 public:
  // Throws the errors of pipelines::open_model(), and UsageError for bad options.
  ServedModel(std::string name, std::filesystem::path folder, const models::LoadOptions& load,
              const WorkOptions& options);

  const std::string& name() const { return name_; }
  const std::filesystem::path& folder() const { return folder_; }
  const std::string& kind() const { return kind_; }  // translation, language, text, image, image-text, speech
  const std::vector<std::string>& tasks() const { return tasks_; }  // translate, generate, embed, ...
  bool has(std::string_view task) const;
  int64_t created() const { return created_; }  // when it was opened, in seconds of Unix time
  const Languages& languages() const { return languages_; }
  const Pipelines& pipelines() const { return pipelines_; }
  // The tokenizer of a text encoder or language model; null for others.
  const text::Tokenizer* tokenizer() const;
  // Tokens that an input may have; nothing: no limit.
  std::optional<int64_t> max_input_tokens() const;
  // Throws HttpError (503) if a file of the model, which is mapped, has been written since it was opened.
  void require_unchanged() const;
  // Of weight matrices and tables, in memory.
  DType weight_dtype() const;
  int64_t audio_seconds() const { return audio_seconds_; }  // of a sound file, at most

  // The attention of one text; for an encoder-decoder, of a text and a translation (empty: the model's own);
  // for a text encoder, of a text and, unless it is empty, a second one. tile: see explain::tiled_report().
  explain::AttentionReport attention(const std::string& text, const std::string& target,
                                     const std::string& pair, std::optional<int64_t> tile) const;

  // Null if the model has none.
  DecodeWorker* decoder() { return decoder_.get(); }
  TextWorker* text_encoder() { return text_encoder_.get(); }
  ImageWorker* image_encoder() { return image_encoder_.get(); }
  SerialWorker& serial() { return *serial_; }
  // Of transcriptions, whose features and windows take memory.
  Places& transcriptions() { return transcriptions_; }

  // The counters of each worker: "decode", "encode", "serial".
  void for_each_worker(
      const std::function<void(const char* worker, const WorkerCounters& counters)>& use) const;

 private:
  static constexpr size_t kTranscriptions = 16;  // at a time

  std::string name_;
  std::filesystem::path folder_;
  std::string kind_;
  std::vector<std::string> tasks_;
  int64_t created_ = 0, audio_seconds_;
  Languages languages_;
  uint64_t first_file_;  // of mapped_files()
  qkv::pipelines::OpenedModel opened_;
  std::vector<MappedFileState> files_;
  Pipelines pipelines_;
  Places transcriptions_{kTranscriptions};  // before the workers, whose jobs leave it
  std::unique_ptr<DecodeWorker> decoder_;
  std::unique_ptr<TextWorker> text_encoder_;
  std::unique_ptr<ImageWorker> image_encoder_;
  std::unique_ptr<SerialWorker> serial_;
};

using ModelHandle = std::shared_ptr<ServedModel>;

}  // namespace qkv::serve
