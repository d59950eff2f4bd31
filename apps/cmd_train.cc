// qkv train

#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/command.h"
#include "apps/profile_report.h"
#include "apps/progress.h"
#include "apps/stop.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/train/translation.h"

namespace qkv::apps {
namespace {

// An option that is only another way to say --set FIELD=VALUE.
struct FieldFlag {
  const char* flag;
  const char* field;
  const char* help;
};
constexpr FieldFlag kFieldFlags[] = {
    {"--max-epochs", "max_epochs", "Stop after so many passes over the corpus (without any limit: 40)"},
    {"--max-steps", "max_steps", "Stop after so many steps"},
    {"--max-minutes", "max_minutes", "Stop after so many minutes, validation included"},
    {"--batch-tokens", "batch_tokens", "Source and target tokens in a batch"},
    {"--accumulate", "accumulate", "Batches whose gradients make one step"},
    {"--schedule", "schedule", "Learning rate: paper, inverse_sqrt, cosine or constant"},
    {"--learning-rate", "learning_rate", "The highest learning rate (not for --schedule paper)"},
    {"--warmup-steps", "warmup_steps", "Steps until the learning rate is at its highest"},
    {"--label-smoothing", "label_smoothing", "Label smoothing"},
    {"--dropout", "dropout", "Dropout after each sublayer"},
    {"--average-decay", "average_decay", "Moving average of the weights, which is what is exported; 0: none"},
    {"--average-last", "average_last", "In its place: the mean of the last so many validations' weights"},
    {"--validate-every", "validate_every", "Steps from one validation to the next; 0: after each epoch"},
    {"--bleu-every", "bleu_every", "Validations from one BLEU to the next; 0: no BLEU"},
    {"--bleu-sentences", "bleu_sentences", "Translate only the first so many for BLEU; 0: all"},
    {"--patience", "patience", "Stop after so many validations without a new best; 0: never"},
    {"--checkpoint-every", "checkpoint_every", "Steps from one checkpoint to the next; 0: not by steps"},
    {"--checkpoint-minutes", "checkpoint_minutes", "Minutes from one checkpoint to the next; 0: not by time"},
    {"--max-length", "max_length", "Leave out pairs with a side of more tokens"},
    {"--seed", "seed", "Of initial weights, data order and dropout"},
};

struct TrainArguments {
  train::TranslationJob job;
  std::string preset = "small", vocabulary_kind = "unigram";
  std::vector<std::string> sets;
  std::map<std::string, std::string> fields;  // from the flags above
  std::filesystem::path save_batches;
  bool resume = false, overwrite = false, skip_bad_utf8 = false, json = false, quiet = false, profile = false;
};

constexpr const char* kFooter = R"(Example:
  qkv train translation --src train.en --tgt train.de --valid-src val.en --valid-tgt val.de \
      --out model --preset small --set dropout=0.3 --max-minutes 60
  echo "A man sleeps." | qkv translate model

Lines that are empty (on either side), or over --max-length tokens, are left out and counted. Bytes that are
not UTF-8 are an error naming file and line, or counted and left out with --skip-bad-utf8. Files with unequal
numbers of lines are an error. Ctrl-C saves and leaves; --resume goes on to the same bits as if nothing had
happened. DIR is a model folder (the best by validation BLEU so far) that qkv translate and Hugging Face
transformers open; `tensorboard --logdir DIR/runs` shows the curves.)";

void set_any(train::TranslationJob& job, const std::string& name, const std::string& value) {
  if (models::set_field(job.config, name, value)) return;
  if (train::set_field(job.options, name, value)) return;
  std::string known;
  for (const auto& [field, unused] : models::fields(job.config)) known += " " + field;
  std::string training;
  for (const auto& [field, unused] : train::fields(job.options)) training += " " + field;
  throw UsageError(concat("--set ", name, ": expected one of the model's fields (", known.substr(1),
                          ") or of training's (", training.substr(1), "), found \"", name, "\""));
}

// Preset, then what the run to resume was given, then what the command line says.
void fill_options(TrainArguments& arguments, bool preset_given) {
  train::TranslationJob& job = arguments.job;
  job.config = models::preset(arguments.preset);
  std::vector<std::pair<std::string, std::string>> given(arguments.fields.begin(), arguments.fields.end());
  for (const std::string& set : arguments.sets) {
    const size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(concat("--set: expected KEY=VALUE, found \"", set, "\""));
    given.emplace_back(set.substr(0, equals), set.substr(equals + 1));
  }
  std::set<std::string> names;
  for (const auto& [name, value] : given) names.insert(name);
  const bool limited =
      names.contains("max_epochs") || names.contains("max_steps") || names.contains("max_minutes");

  std::optional<train::Fields> saved;
  if (arguments.resume) saved = train::options_of_run(job.folder);
  if (saved) {
    for (const auto& [name, value] : *saved) {
      const bool limit = name == "max_epochs" || name == "max_steps" || name == "max_minutes";
      if (limit && limited) continue;
      if (!preset_given && models::set_field(job.config, name, value)) continue;
      train::set_field(job.options, name, value);
    }
  } else {
    if (job.vocabulary.separate && !names.contains("tying")) job.config.tying = models::Tying::two_way;
    if (!limited) job.options.max_epochs = 40;
    if (names.contains("average_last") && !names.contains("average_decay"))
      job.options.optimizer.average_decay = 0;
  }
  for (const auto& [name, value] : given) set_any(job, name, value);
}

// Token ids sentence by sentence.
nlohmann::json sentences(const data::TokenRows& rows) {
  nlohmann::json result = nlohmann::json::array();
  for (size_t i = 0; i + 1 < rows.offsets.size(); ++i) {
    result.push_back(
        std::vector<int32_t>(rows.ids.begin() + rows.offsets[i], rows.ids.begin() + rows.offsets[i + 1]));
  }
  return result;
}

// Shows progress, and beside it writes down batches and times operations where that is wanted.
class Watcher : public TrainProgress {
 public:
  explicit Watcher(const TrainArguments& arguments)
      : TrainProgress(arguments.quiet), arguments_(arguments), path_(arguments.save_batches.string()) {
    if (path_.empty()) return;
    batches_.open(path_);
    if (!batches_) throw IoError(concat(path_, ": cannot be written"));
  }

  void on_start(const train::StartReport& report) override {
    TrainProgress::on_start(report);
    if (!arguments_.profile) return;
    reset_allocator_peak();
    profile_.emplace();
  }

  void on_batch(const data::TranslationRows& rows) override {
    if (path_.empty()) return;
    batches_ << nlohmann::json{{"source", sentences(rows.source)}, {"target", sentences(rows.labels)}}
             << '\n';
    if (!batches_) throw IoError(concat(path_, ": cannot be written: is the disk full?"));
  }

  // What was profiled, and no more from here on.
  std::optional<ProfileReport> take_profile() {
    std::optional<ProfileReport> report;
    if (profile_) report.emplace(*profile_);
    profile_.reset();
    return report;
  }

 private:
  const TrainArguments& arguments_;
  std::string path_;
  std::ofstream batches_;
  std::optional<Profile> profile_;
};

nlohmann::ordered_json json_of(const train::TranslationJob& job, const train::TrainResult& result) {
  nlohmann::ordered_json out = {{"folder", job.folder.string()},
                                {"stopped_because", train::describe(result.reason)},
                                {"interrupted", result.reason == train::StopReason::requested},
                                {"steps", result.steps},
                                {"epochs", result.epochs},
                                {"seconds", result.seconds},
                                {"train_loss", result.train_loss},
                                {"best_step", result.best_step}};
  if (result.best_score) out["best_score"] = *result.best_score;
  if (result.last_validation) {
    const train::ValidationReport& last = *result.last_validation;
    out["validation"] = {{"step", last.step}, {"loss", last.loss}, {"perplexity", last.perplexity}};
    if (last.bleu) out["validation"]["bleu"] = *last.bleu;
  }
  return out;
}

void train_translation(TrainArguments& arguments, bool preset_given) {
  train::TranslationJob& job = arguments.job;
  if (arguments.resume && arguments.overwrite)
    throw UsageError("--resume and --overwrite: expected at most one of them, found both");
  job.existing = arguments.resume      ? train::IfRunExists::resume
                 : arguments.overwrite ? train::IfRunExists::replace
                                       : train::IfRunExists::refuse;
  job.vocabulary.kind =
      arguments.vocabulary_kind == "bpe" ? text::SubwordKind::bpe : text::SubwordKind::unigram;
  job.bad_utf8 = arguments.skip_bad_utf8 ? data::OnBadLine::skip : data::OnBadLine::fail;
  fill_options(arguments, preset_given);

  Watcher progress(arguments);
  const StopSignals stop;
  const train::TrainResult result = train::train_translation(job, progress, stop.flag());
  const std::optional<ProfileReport> profile = progress.take_profile();

  if (result.reason == train::StopReason::requested) {
    progress.say(concat("stopped at step ", result.steps, " and saved; --resume goes on from here"));
  } else {
    progress.say(concat("done after ", result.steps, " steps in ", clock_time(result.seconds), ": ",
                        train::describe(result.reason), "; the model of step ", result.best_step, " is in ",
                        job.folder.string()));
  }
  if (arguments.json) {
    nlohmann::ordered_json out = json_of(job, result);
    if (profile) out["profile"] = profile->json();
    std::cout << out.dump(2) << std::endl;
  } else if (profile) {
    std::cout << profile->text(Style::for_stdout()) << std::flush;
  }
  if (result.reason == train::StopReason::requested) throw ExitStatus{stop.exit_status()};
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* train = app.add_subcommand("train", "Train a model from text");
  train->require_subcommand(1);
  CLI::App* task =
      train->add_subcommand("translation", "Train a translation Transformer on two files of parallel lines");
  auto arguments = std::make_shared<TrainArguments>();
  train::TranslationJob& job = arguments->job;
  task->footer(kFooter);
  task->add_option("--src", job.train.source, "Training text, one sentence a line")->required();
  task->add_option("--tgt", job.train.target, "Its translation, line by line")->required();
  task->add_option("--valid-src", job.valid.source, "Validation text");
  task->add_option("--valid-tgt", job.valid.target, "Its translation");
  task->add_option("--out", job.folder, "The folder for model, checkpoints and curves")->required();
  CLI::Option* preset =
      task->add_option("--preset", arguments->preset, "Model size: tiny, small, base or big")
          ->capture_default_str();
  task->add_option("--set", arguments->sets,
                   "KEY=VALUE: any field of the model or of training (an unknown one lists them all)");
  for (const FieldFlag& flag : kFieldFlags) {
    task->add_option_function<std::string>(
        flag.flag,
        [arguments, field = flag.field](const std::string& value) { arguments->fields[field] = value; },
        flag.help);
  }
  task->add_option("--vocab", job.vocabulary.model,
                   "A SentencePiece model to use; without it one is trained");
  task->add_option("--target-vocab", job.vocabulary.target_model, "Likewise, with --separate-vocab");
  task->add_option("--vocab-size", job.vocabulary.size, "Size of the vocabulary to train")
      ->capture_default_str();
  task->add_option("--vocab-kind", arguments->vocabulary_kind, "Its kind")
      ->check(CLI::IsMember({"unigram", "bpe"}))
      ->capture_default_str();
  task->add_flag("--separate-vocab", job.vocabulary.separate, "A vocabulary for each language");
  task->add_flag("--byte-fallback", job.vocabulary.byte_fallback, "Rare characters become bytes, not <unk>");
  task->add_option("--source-lang", job.vocabulary.source_lang, "Language code, such as en");
  task->add_option("--target-lang", job.vocabulary.target_lang, "Language code, such as de");
  add_threads_option(*task);
  task->add_flag_callback(
      "--recompute", [arguments] { arguments->fields["recompute"] = "true"; },
      "Compute layers' activations again where gradients need them: less memory, more time, the same bits");
  task->add_flag("--resume", arguments->resume,
                 "Go on from DIR's newest checkpoint, or begin if there is none");
  task->add_flag("--overwrite", arguments->overwrite, "Begin anew where DIR holds a model or a run already");
  task->add_flag("--skip-bad-utf8", arguments->skip_bad_utf8, "Leave out lines that are not UTF-8");
  task->add_flag("--profile", arguments->profile,
                 "Print afterwards where time and memory went, by operation; with --json as an object of it");
  task->add_option(
      "--save-batches", arguments->save_batches,
      "A file for the token ids of each batch, a JSON object a line (for training another program "
      "on the same)");
  task->add_flag("--json", arguments->json, "Print the result as JSON on standard output");
  task->add_flag("--quiet", arguments->quiet, "No progress on standard error");
  task->callback([arguments, preset] { train_translation(*arguments, preset->count() > 0); });
}

}  // namespace qkv::apps
