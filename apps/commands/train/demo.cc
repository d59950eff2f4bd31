// qkv demo

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "apps/demo.h"
#include "apps/demo_progress.h"
#include "apps/progress.h"
#include "apps/stop.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/explain/captured_report.h"
#include "qkv/metrics/exact_match.h"

namespace qkv::apps {
namespace {

struct DemoArguments {
  std::string out = "qkv-demo";
  std::optional<std::string> say;
  uint64_t seed = 1;
  std::optional<int64_t> steps;
  bool retrain = false, json = false;
};

// Whether it has units and tens, which German swaps.
bool crosses(int number) { return number % 100 > 20 && number % 10 != 0; }

// The user's input in words; digits are converted.
struct Said {
  std::string english, german;
  std::optional<int> number;  // if it is within the demo's range
};

Said read_said(std::string text, int largest) {
  Said said;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= kSmallest && number <= largest) {
    text = english_number(number);
  }
  said.english = std::move(text);
  for (int i = kSmallest; i <= largest && !said.number; ++i) {
    if (english_number(i) == said.english) said.number = i;
  }
  return said;
}

// Trains and leaves the finished demo's model in the folder. Throws ExitStatus if a signal stopped it.
void train_demo(train::TranslationJob& job, const NumberSplit& split) {
  make_writable_folder(job.folder);
  mark_folder(job, 0);
  make_writable_folder(job.train.source.parent_path());
  write_number_corpus(demo_lines(split.train), job.train.source, job.train.target);
  write_number_corpus(split.validation, job.valid.source, job.valid.target);

  // Enough for a rough figure. The first one is shown; its units and tens cross.
  std::vector<int> watched(split.validation.begin(), split.validation.begin() + 100);
  std::iter_swap(watched.begin(), std::ranges::find_if(watched, crosses));
  const StopSignals stop;
  std::optional<train::TrainResult> result;
  {
    DemoProgress progress(job.folder, texts_of(watched), job.options.max_steps);
    result = train::run_job(job, progress, stop.flag());
  }
  if (result->reason == train::StopReason::requested) {
    say(concat("stopped at step ", result->steps, "; the next demo in ", job.folder.string(),
               " trains from the beginning"));
    end_at_once(stop.exit_status());
  }
  std::filesystem::remove_all(job.folder / "checkpoints");  // training is finished
  std::filesystem::remove_all(job.folder / "cache");
  mark_folder(job, result->seconds);
}

// The drawing of one translation, and a hint where to look.
struct Drawing {
  std::filesystem::path path;
  std::string title, hint;
};

Drawing draw(const models::TranslationModel& model, const std::filesystem::path& folder,
             const std::string& english, std::optional<int> number) {
  const explain::AttentionReport report = explain::attention_report(
      pipelines::capture_text(model, english, {}, pipelines::default_options(model).search),
      "qkv demo: English to German number words");
  Drawing drawing{.path = folder / "attention.html", .title = report.title, .hint = {}};
  explain::write_report(report, drawing.path);
  const explain::HeadPlace place = explain::most_informative_head(report, explain::Part::cross);
  drawing.hint = concat("It opens at cross attention, layer ", place.layer + 1, ", head ", place.head + 1,
                        ", which shows most.");
  if (number && crosses(*number)) {
    drawing.hint +=
        " In the view \"Lines\", units and tens cross,\nbecause German puts the units before the tens.";
  }
  return drawing;
}

struct Line {
  std::string english, found, expected;  // expected: empty if unknown
};

std::vector<std::vector<std::string>> hypothesis_offsets(const std::vector<Line>& lines, const Style& style) {
  std::vector<std::vector<std::string>> rows;
  for (const Line& line : lines) {
    rows.push_back({"  " + line.english, line.found, ""});
    if (line.expected.empty()) continue;
    rows.back()[2] = line.found == line.expected ? style.good("right") : style.bad("not " + line.expected);
  }
  return rows;
}

std::string lines_text(const std::vector<Line>& lines, const Style& style) {
  size_t widths[2] = {0, 0};
  const auto rows = hypothesis_offsets(lines, style);
  for (const auto& row : rows) {
    for (size_t i = 0; i < 2; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows)
    text += pad_right(row[0], widths[0]) + "  " + pad_right(row[1], widths[1]) + "  " + row[2] + "\n";
  return text;
}

void demo(const DemoArguments& arguments) {
  train::TranslationJob job = demo_job(arguments.out);
  job.options.seed = arguments.seed;
  if (arguments.steps) {
    job.options.max_steps = *arguments.steps;
    job.options.validate_every = std::max<int64_t>(1, *arguments.steps / 10);
    job.options.schedule.warmup_steps = std::min(job.options.schedule.warmup_steps, *arguments.steps / 4);
  }
  job.options.validate();
  const NumberSplitOptions numbers = demo_numbers(arguments.seed);
  const NumberSplit split = split_numbers(numbers);
  const NumberTexts held_out = texts_of(split.held_out);
  const std::string folder = job.folder.string();
  set_log_sink([](LogLevel level, const std::string& message) {
    if (level == LogLevel::warning) say("warning: " + message);
  });

  const DemoFolder state = look_at(job);
  const bool reuses = state == DemoFolder::finished && !arguments.retrain;
  if (state == DemoFolder::other && !arguments.retrain) {
    throw UsageError(concat("--out ", folder,
                            ": expected a demo of these settings or a new folder, found a finished demo ",
                            "of other settings, which --retrain replaces"));
  }
  if (reuses) {
    say(concat(folder, " has the model of an earlier demo, which took ",
               clock_time(training_seconds(job.folder)),
               " to train; it is used again (--retrain trains a new one)"));
  } else {
    if (state != DemoFolder::fresh) {
      say(concat(folder, " has ",
                 state == DemoFolder::unfinished ? "an interrupted demo"
                 : state == DemoFolder::other    ? "a demo with other settings"
                                                 : "a finished demo",
                 ": training a new one"));
    }
    std::cerr << Style::for_stderr().bold(
                     "A Transformer learns to translate English number words into German.")
              << "\ncorpus  " << grouped(static_cast<int64_t>(split.train.size()) - kSmallest)
              << " numbers of " << kSmallest << " to " << grouped(numbers.largest) << " for training, "
              << split.validation.size() << " for validation, " << split.held_out.size()
              << " held out\n        for the test (those below " << kRareBelow << " occur " << kCopiesOfRare
              << " times, because they are few)\n";
    train_demo(job, split);
    std::cerr << '\n';
  }

  const pipelines::Translator translator(job.folder);
  const models::TranslationModel& model = translator.model();
  const pipelines::TranslateOptions options = translator.default_options();
  const std::vector<std::string> translations = translate_all(translator, held_out.english, options);
  const metrics::ExactMatch exact = metrics::exact_match(translations, held_out.german);

  std::optional<Said> said;
  if (arguments.say) {
    said = read_said(*arguments.say, numbers.largest);
    const std::vector<pipelines::Translation> result = translator(std::vector{said->english}, options);
    if (!result[0].error.empty()) throw DataError(concat("--say: ", result[0].error));
    if (result[0].hypotheses.empty()) throw UsageError("--say: expected at least one word, found none");
    said->german = result[0].text;
  }
  std::vector<Line> samples;
  for (size_t i = 0; i < std::min<size_t>(5, translations.size()); ++i)
    samples.push_back({held_out.english[i], translations[i], held_out.german[i]});

  // Draws the user's input, or a number whose units and tens cross.
  const auto crossing = std::ranges::find_if(split.held_out, crosses);
  const std::optional<int> drawn_number = said ? said->number : std::optional(*crossing);
  const Drawing drawing =
      draw(model, job.folder, said ? said->english : english_number(*crossing), drawn_number);

  if (arguments.json) {
    nlohmann::ordered_json result{{"folder", folder},
                                  {"trained", !reuses},
                                  {"training_seconds", training_seconds(job.folder)},
                                  {"steps", job.options.max_steps},
                                  {"held_out", exact.segments},
                                  {"exact", exact.matches},
                                  {"exact_match", exact.share()},
                                  {"attention", drawing.path.string()}};
    for (const Line& line : samples) {
      result["samples"].push_back(
          {{"source", line.english}, {"translation", line.found}, {"reference", line.expected}});
    }
    if (said) result["said"] = {{"source", said->english}, {"translation", said->german}};
    std::cout << result.dump(2) << '\n';
    return;
  }

  const Style style = Style::for_stdout();
  char percent[32];
  std::snprintf(percent, sizeof(percent), "%.1f%%", 100 * exact.share());
  std::cout << style.bold(concat(exact.matches, " of ", exact.segments,
                                 " held-out numbers translated exactly (", percent, ")"))
            << '\n'
            << lines_text(samples, style);
  if (said) {
    std::string known = "not a number within the demo's range";
    if (said->number) {
      known = std::ranges::find(split.held_out, *said->number) != split.held_out.end() ? "held out"
              : std::ranges::find(split.validation, *said->number) != split.validation.end()
                  ? "used for validation"
                  : "seen in training";
    }
    const std::string expected = said->number ? german_number(*said->number) : "";
    std::cout << '\n'
              << style.bold("Your input") << " (" << known << ")\n"
              << lines_text({{said->english, said->german, expected}}, style);
  }
  std::cout << '\n'
            << style.bold("Look: ") << "open " << drawing.path.string() << " in a browser (" << drawing.title
            << ").\n";
  if (!drawing.hint.empty()) std::cout << drawing.hint << '\n';
  std::cout << style.bold("Try:  ") << "echo 'ninety-eight' | qkv translate " << folder << '\n';
}

}  // namespace

void add_demo(Command& app) {
  const auto arguments = std::make_shared<DemoArguments>();
  Command* command = add_command(
      app, "demo",
      "Train a small Transformer from scratch and inspect it: it learns to translate English number\n"
      "words into German (\"forty-one\" is \"einundvierzig\"), is tested on unseen numbers,\n"
      "and its attention is drawn. The program generates the corpus. A finished demo in the folder\n"
      "is reused if its settings are equal; --retrain replaces one of other settings.",
      "qkv demo --say 'three hundred twenty-one'");
  add_option(*command, "--out", arguments->out, "DIR",
             "Folder for the model, its corpus and attention.html: new, empty or an earlier demo's");
  add_option(*command, "--say", arguments->say, "TEXT",
             "A number of 1 to 9999, in English words or digits, to translate and to draw (default: none)");
  add_option(*command, "--seed", arguments->seed, "N",
             "Random seed, 0 or more, of the held-out numbers, initial weights and data order");
  add_option(*command, "--steps", arguments->steps, "STEPS",
             concat("Training steps (default: ", demo_job({}).options.max_steps, ")"));
  command->add_flag("--retrain", arguments->retrain, "Train even if the folder has a finished demo");
  command->add_flag("--json", arguments->json, "Print the results as one JSON object");
  add_threads_option(*command);
  command->callback([arguments] { demo(*arguments); });
}

}  // namespace qkv::apps
