#include "qkv/train/tasks/labels/encoder_start.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/hub/family.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/text/train_tokenizer.h"

namespace qkv::train {
namespace {

using models::ClassificationTarget;
using models::FolderKind;

struct TrainedTokenizer {
  text::Tokenizer tokenizer;
  FileContents files;
};

// A WordPiece tokenizer of the training texts. The run has only begun when its files are written.
TrainedTokenizer trained_tokenizer(const EncoderOptions& options, const std::filesystem::path& run,
                                   const std::function<void(const std::filesystem::path&)>& write_texts,
                                   const std::atomic<bool>* stop) {
  const std::filesystem::path cache = run / "cache", texts = cache / "texts.txt";
  make_writable_folder(cache);
  write_texts(texts);
  const text::TokenizerTraining training{.inputs = {texts},
                                         .kind = text::TokenizerKind::wordpiece,
                                         .vocab_size = options.vocabulary_size,
                                         .lowercase = options.lowercase};
  FileContents files{{"tokenizer.json", text::train_tokenizer(training, stop)},
                     {"tokenizer_config.json", text::trained_tokenizer_config(training)}};
  write_tokenizer_files(cache, files);
  text::Tokenizer tokenizer = text::Tokenizer::load(cache);
  std::filesystem::remove_all(cache);
  return {.tokenizer = std::move(tokenizer), .files = std::move(files)};
}

// As its models are written.
void require_head(const StartFolder& start, ClassificationTarget target) {
  const models::EncoderFamily* const family = models::find_family(models::encoder_families(), start.family());
  const auto has = [target](const models::ModelClass& one) { return one.labelled == target; };
  // The last token of a language model, which has seen the others, is classified, too.
  if (target == ClassificationTarget::texts ||
      (family != nullptr && std::ranges::any_of(family->classes, has)))
    return;
  throw UsageError(
      concat("model.from ", start.from().string(), ": expected a text encoder with a ",
             target == ClassificationTarget::spans ? "question answering" : "token classification",
             " head (bert, roberta, deberta-v2, ...), found a model of the family ", start.family()));
}

// In transformers, the tokenizer then cuts texts as in training.
void write_max_length(const std::filesystem::path& run, int64_t max_length) {
  using nlohmann::ordered_json;
  const std::filesystem::path path = run / "tokenizer_config.json";
  ordered_json settings = ordered_json::object();
  if (std::filesystem::exists(path)) settings = ordered_json::parse(read_file(path), nullptr, false);
  if (!settings.is_object()) return;
  settings["model_max_length"] = max_length;
  write_file_atomically(path, settings.dump(2) + "\n");
}

}  // namespace

void list_settings(Settings& all, EncoderOptions& o) {
  all.add("model.from", o.from, kDecidesWeights)
      .flag({"DIR",
             "Encoder of texts (bert, deberta-v2, ...) or language model to start from (default: random "
             "weights)"});
  all.add("vocabulary.tokenizer", o.tokenizer, kDecidesWeights)
      .flag({"DIR", "Folder with the tokenizer, without --from (default: one is trained)"});
  all.add("vocabulary.size", o.vocabulary_size, kDecidesWeights)
      .flag({"N", "Size of the WordPiece vocabulary to train; smaller if the texts yield fewer pieces",
             "--vocab-size"});
  all.add("vocabulary.lowercase", o.lowercase, kDecidesWeights)
      .flag({"true|false", "Whether that tokenizer ignores case and accents"});
  all.add_model(o.shape);
  all.flag("model.dropout", {"RATE", "Dropout after each sublayer and before the classifier; 0: none"});
}

void EncoderOptions::complete(const std::set<std::string>& given) {
  if (from.empty()) return;
  refuse_settings_of_folder(given, {"vocabulary."});
  const models::ModelShape wanted = shape;
  const models::TextEncoderConfig own =
      StartFolder(from, FolderKind::encoder, {}, /*resumes=*/false).text_encoder_config();
  shape = shape_of(own.encoder, own.max_positions.value_or(0));
  take_given(shape, wanted, given);
}

void EncoderOptions::check(bool reads_from, ClassificationTarget target) const {
  if (from.empty()) {
    validate_model(shape);
    if (vocabulary_size < 8)
      throw UsageError(concat("vocabulary.size: expected at least 8, found ", vocabulary_size));
    if (!tokenizer.empty() && reads_from) text::Tokenizer::load(tokenizer);
  } else if (reads_from) {
    const StartFolder start(from, FolderKind::encoder, {}, /*resumes=*/false);
    start.tokenizer(start.text_encoder_config().vocabulary);
    require_head(start, target);
  }
}

std::vector<std::string> EncoderOptions::labels(ClassificationTarget target,
                                                const std::vector<std::string>& found) const {
  if (from.empty()) return found;
  const StartFolder start(from, FolderKind::encoder, {}, /*resumes=*/false);
  return labels_for(start.text_encoder_config(), target, found);
}

std::vector<std::string> EncoderStart::labels(ClassificationTarget target,
                                              const std::vector<std::string>& found) const {
  return start ? labels_for(start->text_encoder_config(), target, found) : found;
}

std::vector<std::string> labels_for(const models::TextEncoderConfig& own, ClassificationTarget target,
                                    const std::vector<std::string>& found) {
  const auto known = [&](const std::string& label) { return std::ranges::count(own.labels, label) > 0; };
  const bool all = own.labelled == target && std::ranges::all_of(found, known);
  return all ? own.labels : found;
}

void EncoderStart::label(ClassificationTarget target, std::vector<std::string> labels,
                         models::ProblemType problem) {
  config.labelled = target;
  // ModernBERT's tokens, too, pass through one.
  const models::EncoderFamily* const own = models::find_family(models::encoder_families(), family);
  const auto pools_tokens = [](const models::ModelClass& one) {
    return one.pooler && one.labelled == ClassificationTarget::tokens;
  };
  config.pooler = (target == ClassificationTarget::texts && !config.causal) ||
                  (own != nullptr && std::ranges::any_of(own->classes, pools_tokens));
  config.labels = std::move(labels);
  config.problem = problem;
  // transformers needs one to classify several texts at once.
  if (const auto pad = tokenizer.special_tokens().pad; config.causal && config.pad_ids.empty() && pad)
    config.pad_ids = {*pad};
  config.validate();
  models::require_expressible(config, family);
}

void EncoderStart::begin(const std::filesystem::path& run, int64_t wanted_length) const {
  if (start) {
    start->begin(run);
  } else {
    write_tokenizer_files(run, tokenizer_files);
  }
  write_max_length(run, max_length(wanted_length));
}

int64_t EncoderStart::max_length(int64_t wanted) const {
  const int64_t limit = config.max_positions.value_or(512);
  return wanted == 0 ? limit : std::min(wanted, limit);
}

EncoderStart open_encoder(const EncoderOptions& options, const std::filesystem::path& run, bool resumes,
                          const std::function<void(const std::filesystem::path& file)>& write_texts,
                          const std::atomic<bool>* stop) {
  if (!options.from.empty()) {
    StartFolder start(options.from, FolderKind::encoder, run, resumes);
    models::TextEncoderConfig config = start.text_encoder_config();
    config.pooler = config.masked_language = config.next_sentence = false;
    config.labelled = ClassificationTarget::nothing;
    config.labels.clear();
    config.embedding.dropout = options.shape.dropout;
    config.encoder.set_dropout(options.shape.dropout, options.shape.attention_dropout);
    config.encoder.drop_path = options.shape.drop_path;
    text::Tokenizer tokenizer = start.tokenizer(config.vocabulary);
    std::string family = start.family();
    return {.config = std::move(config),
            .family = std::move(family),
            .tokenizer = std::move(tokenizer),
            .start = std::move(start)};
  }
  const auto from_folder = [&](const std::filesystem::path& folder) -> EncoderStart {
    text::Tokenizer tokenizer = text::Tokenizer::load(folder);
    models::TextEncoderConfig config = models::bert(options.shape, tokenizer.size());
    return {.config = std::move(config),
            .tokenizer = std::move(tokenizer),
            .tokenizer_files = read_tokenizer_files(folder)};
  };
  if (resumes) return from_folder(run);
  if (!options.tokenizer.empty()) return from_folder(options.tokenizer);
  TrainedTokenizer trained = trained_tokenizer(options, run, write_texts, stop);
  models::TextEncoderConfig config = models::bert(options.shape, trained.tokenizer.size());
  return {.config = std::move(config),
          .tokenizer = std::move(trained.tokenizer),
          .tokenizer_files = std::move(trained.files)};
}

}  // namespace qkv::train
