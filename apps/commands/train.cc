// qkv train

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "apps/command.h"
#include "apps/profile_report.h"
#include "apps/progress.h"
#include "apps/stop.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/train/tasks/translation.h"

namespace qkv::apps {
namespace {

// An option that is another way to say --set FIELD=VALUE.
struct FieldFlag {
  const char* flag;
  const char* field;
  const char* type;  // empty: a flag that says true
  const char* help;
};

constexpr FieldFlag kDataFlags[] = {
    {"--src", "data.source", "FILE", "Training text, one sentence a line (default: the resumed run's)"},
    {"--tgt", "data.target", "FILE", "Its translation, line by line (default: the resumed run's)"},
    {"--valid-src", "data.valid_source", "FILE", "Validation text (default: none)"},
    {"--valid-tgt", "data.valid_target", "FILE", "Its translation (default: none)"},
    {"--skip-bad-utf8", "data.skip_bad_utf8", "", "Leave out lines that are not UTF-8"},
    {"--max-length", "train.max_length", "TOKENS", "Leave out pairs with a longer side"},
    {"--vocab", "vocabulary.model", "FILE", "SentencePiece model to use (default: one is trained)"},
    {"--target-vocab", "vocabulary.target_model", "FILE",
     "Likewise for the target, with --separate-vocab (default: one is trained)"},
    {"--vocab-size", "vocabulary.size", "N",
     "Entries of the vocabulary to train; fewer where the text has fewer"},
    {"--vocab-kind", "vocabulary.kind", "unigram|bpe", "Kind of the vocabulary to train"},
    {"--separate-vocab", "vocabulary.separate", "", "A vocabulary for each language"},
    {"--byte-fallback", "vocabulary.byte_fallback", "", "Rare characters become bytes, not <unk>"},
    {"--source-lang", "vocabulary.source_lang", "CODE",
     "Language of the source, such as en (default: unknown)"},
    {"--target-lang", "vocabulary.target_lang", "CODE",
     "Language of the target, such as de (default: unknown)"},
};
constexpr FieldFlag kTrainFlags[] = {
    {"--batch-tokens", "train.batch_tokens", "TOKENS", "Source and target tokens in a batch"},
    {"--accumulate", "train.accumulate", "BATCHES", "Batches whose gradients make one step"},
    {"--schedule", "schedule.kind", "paper|inverse_sqrt|cosine|constant", "Learning rate"},
    {"--learning-rate", "schedule.learning_rate", "RATE", "Highest learning rate (not for --schedule paper)"},
    {"--warmup-steps", "schedule.warmup_steps", "STEPS",
     "Steps until the highest learning rate; 0: begin there"},
    {"--label-smoothing", "train.label_smoothing", "SHARE", "Label smoothing; 0: none"},
    {"--dropout", "model.dropout", "RATE", "Dropout after each sublayer; 0: none"},
    {"--average-decay", "optimizer.average_decay", "RATE",
     "Decay of the moving average of the weights, which is exported; 0: no average"},
    {"--average-last", "train.average_last", "N",
     "Export the mean of the weights of the last N validations instead; 0: off"},
    {"--recompute", "train.recompute", "",
     "Compute activations again in the backward pass: less memory, more time, the same bits"},
    {"--seed", "train.seed", "N", "Of initial weights, data order and dropout"},
};
constexpr FieldFlag kRunFlags[] = {
    {"--max-epochs", "train.max_epochs", "EPOCHS",
     "Stop after this many epochs; 0: no such limit (without any limit: 40)"},
    {"--max-steps", "train.max_steps", "STEPS", "Stop after this many steps; 0: no such limit"},
    {"--max-minutes", "train.max_minutes", "MINUTES",
     "Stop after this time, validation included; 0: no such limit"},
    {"--validate-every", "train.validate_every", "STEPS", "Steps between validations; 0: after each epoch"},
    {"--bleu-every", "train.bleu_every", "N",
     "Validations between BLEU scores; 0: no BLEU, the loss decides"},
    {"--bleu-sentences", "train.bleu_sentences", "N", "Translate the first N sentences for BLEU; 0: all"},
    {"--patience", "train.patience", "N", "Stop after N validations without a new best; 0: never"},
    {"--checkpoint-every", "train.checkpoint_every", "STEPS", "Steps between checkpoints; 0: not by steps"},
    {"--checkpoint-minutes", "train.checkpoint_minutes", "MINUTES",
     "Minutes between checkpoints; 0: not by time"},
};

struct TrainArguments {
  train::TranslationJob job;
  std::optional<std::string> preset;
  std::vector<std::string> sets;
  std::map<std::string, std::string> fields;  // from the flags above
  std::filesystem::path save_batches;
  bool resume = false, must_resume = false, overwrite = false;
  bool json = false, quiet = false, profile = false;
};

constexpr const char* kDefaultPreset = "small";

constexpr const char* kFooter = R"(Example:
  qkv train translation --src train.en --tgt train.de --valid-src val.en --valid-tgt val.de \
      --out model --preset small --dropout 0.3 --max-minutes 60
  echo "A man sleeps." | qkv translate model

Lines that are empty (on either side), or over --max-length tokens, are left out and counted. Bytes that are
not UTF-8 are an error naming file and line, or counted and left out with --skip-bad-utf8. Files with unequal
numbers of lines are an error. Ctrl-C saves and stops; `qkv train --resume DIR` continues to the same bits as
an uninterrupted run. DIR is a model folder (the best by validation BLEU, where BLEU is equal by loss) that
qkv translate and Hugging Face transformers open; `tensorboard --logdir DIR/runs` shows the curves.)";

// The field of --set: its full name, or the part behind the namespace where only one field has it.
std::string full_name(const train::TranslationJob& job, const std::string& name) {
  std::vector<std::string> all, same;
  for (const train::Field& field : train::fields(job)) {
    if (field.name == name) return name;
    all.push_back(field.name);
    if (field.name.ends_with("." + name)) same.push_back(field.name);
  }
  if (same.size() == 1) return same[0];
  throw UsageError(concat("--set ", name, ": expected one of ",
                          CLI::detail::join(same.empty() ? all : same, ", "), ", found \"", name, "\""));
}

std::vector<std::pair<std::string, std::string>> given_fields(const TrainArguments& arguments) {
  std::vector<std::pair<std::string, std::string>> given(arguments.fields.begin(), arguments.fields.end());
  for (const std::string& set : arguments.sets) {
    const size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(concat("--set: expected FIELD=VALUE, found \"", set, "\""));
    given.emplace_back(full_name(arguments.job, set.substr(0, equals)), set.substr(equals + 1));
  }
  return given;
}

bool is_limit(const std::string& field) {
  return field == "train.max_epochs" || field == "train.max_steps" || field == "train.max_minutes";
}

// The preset, then the settings of the run to resume, then the command line's.
void fill_options(TrainArguments& arguments) {
  train::TranslationJob& job = arguments.job;
  job.config = models::preset(arguments.preset.value_or(kDefaultPreset));
  const auto given = given_fields(arguments);
  std::set<std::string> names;
  for (const auto& [name, value] : given) names.insert(name);
  const bool limited = std::ranges::any_of(names, is_limit);

  std::optional<train::Fields> saved;
  if (arguments.resume) saved = train::fields_of_run(job.folder);
  if (arguments.must_resume && !saved)
    throw UsageError(
        concat("--resume ", job.folder.string(), ": expected a training run, found no checkpoint"));
  if (saved) {
    if (const auto task = saved->find("task"); task == saved->end() || task->second != "translation") {
      throw UsageError(concat(job.folder.string(), ": expected a run of translation, found one of ",
                              task == saved->end() ? "no known task" : task->second));
    }
    for (const auto& [name, value] : *saved) {
      if (limited && is_limit(name)) continue;
      if (arguments.preset && name.starts_with("model.")) continue;
      train::set_field(job, name, value);
    }
  } else {
    const auto separate = arguments.fields.find("vocabulary.separate");
    if (separate != arguments.fields.end() && !names.contains("model.tying"))
      job.config.tying = models::Tying::two_way;
    if (!limited) job.options.max_epochs = 40;
    if (names.contains("train.average_last") && !names.contains("optimizer.average_decay"))
      job.options.optimizer.average_decay = 0;
  }
  for (const auto& [name, value] : given) train::set_field(job, name, value);
  for (const auto& [file, flag] : {std::pair(&job.train.source, "--src"), {&job.train.target, "--tgt"}}) {
    if (file->empty())
      throw UsageError(concat(flag, ": expected a file of training text (or a run to --resume), found none"));
  }
}

// A message of the library with the command line's names for fields that have one.
std::string with_flags(std::string message) {
  if (message.starts_with("--set")) return message;  // lists fields
  const auto replace = [&message](const std::string& name, const std::string& by) {
    const auto continues = [&](size_t at) {
      return at < message.size() &&
             (std::isalnum(static_cast<unsigned char>(message[at])) || message[at] == '_');
    };
    for (size_t at = 0; (at = message.find(name, at)) != std::string::npos;) {
      const size_t end = at + name.size();
      if (continues(end)) {
        at = end;
      } else {
        message.replace(at, name.size(), by);
        at += by.size();
      }
    }
  };
  for (const auto flags : {std::span<const FieldFlag>(kDataFlags), std::span<const FieldFlag>(kTrainFlags),
                           std::span<const FieldFlag>(kRunFlags)}) {
    for (const FieldFlag& flag : flags) replace(flag.field, flag.flag);
  }
  replace("resume it, replace it, or choose another folder",
          "--resume continues it, --overwrite starts a new run in its place");
  if (message.starts_with("resume: ")) message = "--" + message;
  return message;
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

  void on_batch(const train::Batch& batch) override {
    if (path_.empty()) return;
    const data::TranslationRows& rows = dynamic_cast<const train::TranslationBatch&>(batch).rows;
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
  if (!result.best.empty()) {
    out["best"] = {{"by", result.best_by}};
    for (const auto& [name, value] : result.best) out["best"][name] = value;
  }
  if (result.last_validation) {
    const train::ValidationReport& last = *result.last_validation;
    out["validation"] = {{"step", last.step}, {"loss", last.evaluation.loss}};
    for (const auto& [name, value] : last.evaluation.metrics) out["validation"][name] = value;
  }
  return out;
}

void train_translation(TrainArguments& arguments) {
  train::TranslationJob& job = arguments.job;
  if (arguments.resume && arguments.overwrite)
    throw UsageError("--resume and --overwrite: expected at most one of them, found both");
  job.existing = arguments.resume      ? train::IfRunExists::resume
                 : arguments.overwrite ? train::IfRunExists::replace
                                       : train::IfRunExists::refuse;
  const StopSignals stop;
  Watcher progress(arguments);
  train::TrainResult result;
  try {
    fill_options(arguments);
    result = train::train_translation(job, progress, stop.flag());
  } catch (const UsageError& error) {
    throw UsageError(with_flags(error.what()));
  }
  const std::optional<ProfileReport> profile = progress.take_profile();

  if (result.reason == train::StopReason::requested) {
    progress.say(concat("stopped at step ", result.steps, " and saved; continue with: qkv train --resume ",
                        job.folder.string()));
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

void add_flags(CLI::App& command, const std::shared_ptr<TrainArguments>& arguments,
               std::span<const FieldFlag> flags, const std::map<std::string, std::string>& defaults) {
  for (const FieldFlag& flag : flags) {
    const std::string field = flag.field;
    if (*flag.type == '\0') {
      command.add_flag_callback(
          flag.flag, [arguments, field] { arguments->fields[field] = "true"; }, flag.help);
      continue;
    }
    CLI::Option* option = command.add_option_function<std::string>(
        flag.flag, [arguments, field](const std::string& value) { arguments->fields[field] = value; },
        flag.help);
    option->type_name(flag.type);
    if (const std::vector<std::string> choices = choices_of(flag.type); !choices.empty())
      option->check(one_of(choices));
    if (const std::string& value = defaults.at(field); !value.empty()) option->default_str(value);
  }
}

// The options that a resumed run may have others of.
void add_run_options(CLI::App& command, const std::shared_ptr<TrainArguments>& arguments,
                     const std::map<std::string, std::string>& defaults) {
  add_flags(command, arguments, kRunFlags, defaults);
  add_threads_option(command);
  command.add_flag(
      "--profile", arguments->profile,
      "Print at the end where time and memory went, by operation; with --json as an object of it");
  command
      .add_option(
          "--save-batches", arguments->save_batches,
          "A file for the token ids of each batch, a JSON object a line (for training another program "
          "on the same) (default: none)")
      ->type_name("FILE");
  command.add_flag("--json", arguments->json, "Print the result as JSON on standard output");
  command.add_flag("--quiet", arguments->quiet, "No progress on standard error");
}

}  // namespace

void add_train(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  train::TranslationJob& job = arguments->job;
  job.config = models::preset(kDefaultPreset);
  std::map<std::string, std::string> defaults;
  for (const train::Field& field : train::fields(job)) defaults[field.name] = field.value;

  CLI::App* train = app.add_subcommand("train", "Train a model from text");
  train->footer("\nExample:\n  qkv train translation --help\n  qkv train --resume model");
  train->require_subcommand(0, 1);
  CLI::Option* resumed = train
                             ->add_option("--resume", job.folder,
                                          "Continue the run in this folder, as it was begun (default: none)")
                             ->type_name("DIR");
  add_run_options(*train, arguments, defaults);

  CLI::App* task =
      train->add_subcommand("translation", "Train a translation Transformer on two files of parallel lines");
  task->footer(kFooter);
  task->add_option("--out", job.folder, "The folder for model, checkpoints and curves")
      ->required()
      ->type_name("DIR");
  task->add_flag(
      "--resume", arguments->resume,
      "Continue from DIR's newest checkpoint, or begin if there is none; options need not be repeated");
  task->add_flag("--overwrite", arguments->overwrite,
                 "Start a new run where DIR holds a model or a run already");
  task->add_option("--preset", arguments->preset, "Model size")
      ->type_name(CLI::detail::join(models::preset_names(), "|"))
      ->check(one_of(models::preset_names()))
      ->default_str(kDefaultPreset);
  task->add_option("--set", arguments->sets,
                   "Any field of model, training or optimizer: model.d_ff=512 (an unknown one lists them "
                   "all); may be\n"
                   "given several times (default: none)")
      ->type_name("FIELD=VALUE");
  add_flags(*task, arguments, kDataFlags, defaults);
  add_flags(*task, arguments, kTrainFlags, defaults);
  add_run_options(*task, arguments, defaults);
  task->callback([arguments] { train_translation(*arguments); });
  train->callback([arguments, task, resumed] {
    if (task->parsed()) {
      if (resumed->count() > 0)
        throw UsageError(
            "train --resume DIR: expected no task behind it, as the run knows its own, found translation");
      return;
    }
    if (resumed->count() == 0)
      throw UsageError(
          "train: expected a task (translation) or --resume DIR, found neither; see qkv train --help");
    arguments->resume = arguments->must_resume = true;
    train_translation(*arguments);
  });
}

}  // namespace qkv::apps
