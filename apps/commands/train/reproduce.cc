// qkv reproduce table3

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "apps/progress.h"
#include "apps/stop.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/base/log.h"
#include "qkv/train/table3/report.h"

namespace qkv::apps {
namespace {

struct ReproduceArguments {
  std::filesystem::path folder;
  std::optional<std::filesystem::path> data;
  std::optional<std::string> source_lang, target_lang, rows;
  std::optional<int64_t> scale, steps, batch_tokens, warmup_steps, seeds, runs_at_once;
  std::optional<float> rate_factor;
  double max_minutes = 0;
  bool json = false, quiet = false;
};

// On a terminal a line that is rewritten in place; a permanent line per run. Warnings are printed above it;
// other messages of runs are dropped. Several runs at once share the line.
class Table3Lines : public train::Table3Observer {
 public:
  explicit Table3Lines(bool quiet) : quiet_(quiet), terminal_(stderr_is_terminal()) {
    set_log_sink([this](LogLevel level, const std::string& message) {
      if (level != LogLevel::warning) return;
      const std::lock_guard lock(mutex_);
      clear();
      say("warning: " + message);
    });
  }
  ~Table3Lines() override {
    set_log_sink({});
    clear();
  }
  Table3Lines(const Table3Lines&) = delete;
  Table3Lines& operator=(const Table3Lines&) = delete;

  void on_run(const train::Table3Progress& progress) override {
    const std::lock_guard lock(mutex_);
    running_[progress.run] = {.name = short_name(progress), .percent = 0};
    draw(running_.size() == 1 ? concat(name(progress), ": starting") : all_runs(progress), true);
  }

  void on_progress(const train::Table3Progress& progress, const train::StepReport& report) override {
    const std::lock_guard lock(mutex_);
    running_[progress.run].percent = 100 * report.step / std::max<int64_t>(progress.steps, 1);
    const bool last = report.step == progress.steps;
    if (running_.size() > 1) return draw(all_runs(progress), last);
    std::string line = concat(name(progress), ": step ", grouped(report.step), " of ",
                              grouped(progress.steps), ", loss ", fixed(report.loss, 3));
    draw(line + left(progress, "left of all runs "), last);
  }

  void on_run_end(const train::Table3Progress& progress, const train::Table3Run& run) override {
    print(run.failure.empty() ? concat(name(progress), ": perplexity ", fixed(std::exp(run.loss), 2),
                                       ", BLEU ", fixed(run.bleu, 1), ", ", clock_time(run.seconds))
                              : concat(name(progress), ": no result: ", run.failure));
    const std::lock_guard lock(mutex_);
    running_.erase(progress.run);
  }

  void print(const std::string& line) {
    if (quiet_) return;
    const std::lock_guard lock(mutex_);
    clear();
    say(line);
  }

 private:
  struct Running {
    std::string name;
    int64_t percent = 0;
  };

  static std::string name(const train::Table3Progress& progress) {
    return concat("run ", progress.run, " of ", progress.runs, ", ", progress.row, ", seed ", progress.seed);
  }
  static std::string short_name(const train::Table3Progress& progress) {
    return concat(progress.row, "-seed", progress.seed);
  }
  static std::string left(const train::Table3Progress& progress, const char* label) {
    return progress.seconds_left ? concat(", ", label, clock_time(*progress.seconds_left)) : "";
  }

  // "3 of 38 ended; A-h4-seed1 42 %, A-h16-seed1 7 %, left 1:02:10", in the width of a terminal.
  std::string all_runs(const train::Table3Progress& progress) const {
    constexpr size_t kShown = 2;
    std::string line = concat(progress.ended, " of ", progress.runs, " ended");
    size_t shown = 0;
    for (const auto& [run, running] : running_) {
      if (shown == kShown) {
        line += concat(" and ", running_.size() - kShown, " more");
        break;
      }
      line += concat(shown++ == 0 ? "; " : ", ", running.name, " ", running.percent, " %");
    }
    return line + left(progress, "left ");
  }

  void draw(const std::string& line, bool at_once) {
    if (quiet_ || !terminal_) return;
    const auto now = std::chrono::steady_clock::now();
    if (!at_once && showing_ && now - shown_ < std::chrono::milliseconds(200)) return;
    shown_ = now;
    std::fputs(("\r" + line + "\033[K").c_str(), stderr);
    std::fflush(stderr);
    showing_ = true;
  }

  void clear() {
    if (showing_) std::fputs("\r\033[K", stderr);
    showing_ = false;
  }

  std::mutex mutex_;  // warnings come from the threads of all runs
  std::map<int64_t, Running> running_;
  bool quiet_, terminal_, showing_ = false;
  std::chrono::steady_clock::time_point shown_;
};

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

// Those of the folder's reproduction, or the defaults, changed by the command line.
train::Table3Options table3_options(const ReproduceArguments& arguments) {
  train::Table3Options options = train::table3_options_in(arguments.folder).value_or(train::Table3Options{});
  const auto set = [](auto& field, const auto& given) {
    if (given) field = *given;
  };
  set(options.data, arguments.data);
  set(options.source_lang, arguments.source_lang);
  set(options.target_lang, arguments.target_lang);
  set(options.scale, arguments.scale);
  set(options.steps, arguments.steps);
  set(options.batch_tokens, arguments.batch_tokens);
  set(options.warmup_steps, arguments.warmup_steps);
  set(options.rate_factor, arguments.rate_factor);
  set(options.seeds, arguments.seeds);
  set(options.runs_at_once, arguments.runs_at_once);
  if (arguments.rows) options.rows = split_at_commas(*arguments.rows);
  options.max_minutes = arguments.max_minutes;
  if (options.data.empty()) {
    throw UsageError(concat("--data: expected a folder with train.", options.source_lang, ", train.",
                            options.target_lang, ", val.", options.source_lang, " and val.",
                            options.target_lang, ", found none given"));
  }
  return options;
}

using Json = nlohmann::ordered_json;

Json json_of_metric(const std::optional<train::Table3Metric>& metric) {
  if (!metric) return nullptr;
  Json out{{"mean", metric->mean}, {"half_width", nullptr}};
  if (metric->half_width) out["half_width"] = *metric->half_width;
  if (metric->order) {
    out["minus_base"] = metric->order->difference;
    out["minus_base_half_width"] = nullptr;
    if (metric->order->half_width) out["minus_base_half_width"] = *metric->order->half_width;
    out["order_as_in_paper"] = nullptr;
    if (!metric->order->equal_in_paper) out["order_as_in_paper"] = metric->order->agrees;
  }
  return out;
}

Json json_of_agreement(const train::Table3Agreement& agreement) {
  return {{"rows", agreement.rows},
          {"agreeing", agreement.agreeing},
          {"disagreeing", agreement.disagreeing},
          {"pairs", agreement.pairs},
          {"agreeing_pairs", agreement.agreeing_pairs}};
}

Json json_of_table3(const std::filesystem::path& folder, const train::Table3Report& report) {
  const train::Table3Options& options = report.options;
  Json out{{"folder", folder.string()},
           {"finished", report.finished},
           {"runs", report.runs},
           {"planned_runs", report.planned},
           {"scale", options.scale},
           {"steps", options.steps},
           {"batch_tokens", options.batch_tokens},
           {"warmup_steps", options.warmup_steps},
           {"rate_factor", decimal(options.rate_factor)},
           {"seeds", options.seeds},
           {"rows", Json::array()},
           {"perplexity_order", json_of_agreement(report.perplexity)},
           {"bleu_order", json_of_agreement(report.bleu)}};
  for (const train::Table3ReportRow& row : report.rows) {
    Json paper{{"perplexity", row.row.perplexity}, {"bleu", row.row.bleu}};
    if (row.row.millions) paper["parameters"] = *row.row.millions * 1'000'000;
    Json line{{"row", row.row.name},
              {"model", train::table3_changes(row.row, options.scale)},
              {"parameters", row.parameters},
              {"perplexity", nullptr},
              {"log_perplexity", json_of_metric(row.loss)},
              {"bleu", json_of_metric(row.bleu)},
              {"failures", row.failures},
              {"paper", paper},
              {"runs", Json::array()}};
    if (row.loss) line["perplexity"] = row.perplexity();
    for (const train::Table3Run& run : row.runs) {
      line["runs"].push_back({{"seed", run.seed}, {"log_perplexity", run.loss}, {"bleu", run.bleu}});
    }
    out["rows"].push_back(std::move(line));
  }
  return out;
}

void print_table3(const train::Table3Report& report) {
  auto cells = train::table3_cells(report);
  size_t width = 0;
  for (auto& row : cells) width = std::max(width, row[1].size());
  for (auto& row : cells) row[1] = pad_right(row[1], width);  // left-aligned
  const std::string text = table_text(cells);
  const size_t heading = text.find('\n');
  std::cout << Style::for_stdout().bold(text.substr(0, heading)) << text.substr(heading) << '\n';
  for (const std::string& line : train::table3_conclusions(report)) std::cout << line << '\n';
}

void reproduce_table(const ReproduceArguments& arguments) {
  const StopSignals stop;
  const std::string folder = arguments.folder.string();
  Table3Lines lines(arguments.quiet);
  const train::Table3Report report = train::summarise(
      train::reproduce_table3(arguments.folder, table3_options(arguments), lines, stop.flag()));
  if (report.runs > 0 || report.finished) {
    if (arguments.json) {
      std::cout << json_of_table3(arguments.folder, report).dump(2) << std::endl;
    } else {
      print_table3(report);
    }
  }
  if (report.finished) {
    lines.print(concat("the table is in ", folder, ": table3.md, table3.tsv, table3.svg"));
    return;
  }
  lines.print(concat(*stop.flag() ? "stopped" : "the time is over", " after ", report.runs, " of ",
                     counted(report.planned, "runs"), "; continue with: qkv reproduce table3 --out ",
                     folder));
  if (*stop.flag()) end_at_once(stop.exit_status());
  std::cout.flush();
  end_at_once(0);  // a vocabulary may still be trained
}

template <class Value>
std::string with_default(Value train::Table3Options::*field) {
  return concat(" (default: ", train::Table3Options{}.*field, ")");
}

}  // namespace

void add_reproduce(Command& app) {
  Command* group = add_command(app, "reproduce", "Reproduce a result of a paper",
                               "qkv reproduce table3 --data multi30k --out table3");
  group->require_subcommand(1, 1);
  const auto arguments = std::make_shared<ReproduceArguments>();
  Command* command = add_command(
      *group, "table3",
      "Train every row of Table 3 of \"Attention Is All You Need\" at a small scale. The rows (Vaswani et\n"
      "al. 2017) change heads, d_k, layers, widths, dropout, label smoothing and positions. Each is trained\n"
      "with several seeds; perplexity, BLEU and the order of the rows are compared with the paper's. Prints\n"
      "the table and writes DIR/table3.md, .tsv and .svg. Interrupted, the same command continues exactly;\n"
      "options need not be repeated. More --seeds and other --rows may be given later.",
      "qkv reproduce table3 --data multi30k --out table3\n"
      "  qkv reproduce table3 --data multi30k --out heads --rows A,B --seeds 5");
  using train::Table3Options;
  add_option(*command, "--out", arguments->folder, "DIR", "Folder for the runs and the table")->required();
  add_option(
      *command, "--data", arguments->data, "DIR",
      "Folder with train.en, train.de, val.en and val.de, line by line translations (default: that of\n"
      "the reproduction in --out)");
  add_option(*command, "--source-lang", arguments->source_lang, "CODE",
             "Ending of the source texts' names" + with_default(&Table3Options::source_lang));
  add_option(*command, "--target-lang", arguments->target_lang, "CODE",
             "Ending of the target texts' names" + with_default(&Table3Options::target_lang));
  add_option(*command, "--scale", arguments->scale, "N",
             "Divisor of all widths and of the vocabulary: 1, 2, 4, 8 or 16; 1: the paper's sizes" +
                 with_default(&Table3Options::scale));
  add_option(*command, "--steps", arguments->steps, "STEPS",
             "Training steps of every row, of big three times as many" + with_default(&Table3Options::steps));
  add_option(*command, "--batch-tokens", arguments->batch_tokens, "TOKENS",
             "Source and target tokens per step" + with_default(&Table3Options::batch_tokens));
  add_option(*command, "--warmup-steps", arguments->warmup_steps, "STEPS",
             "Warm-up steps of the paper's schedule; 0: none" + with_default(&Table3Options::warmup_steps));
  add_option(*command, "--rate-factor", arguments->rate_factor, "X",
             "Factor of the paper's learning rates" + with_default(&Table3Options::rate_factor));
  add_option(*command, "--seeds", arguments->seeds, "N",
             "Train every row with the seeds 1 to N" + with_default(&Table3Options::seeds));
  add_option(
      *command, "--rows", arguments->rows, "NAMES",
      "Rows or groups, separated by commas, such as A,C-N2,big; base is always trained (default: base,\n"
      "A, B, C, D, E). An unknown name lists all");
  add_option(
      *command, "--runs-at-once", arguments->runs_at_once, "N",
      "Runs to train at the same time, at most --threads: several have one thread each, which is faster\n"
      "for small models; one has all threads. Results do not depend on it (default: at scale 8 and 16 a\n"
      "run for each thread, else 1)");
  add_option(*command, "--max-minutes", arguments->max_minutes, "MINUTES",
             "Stop after this time, to be continued; 0: no limit");
  add_threads_option(*command);
  command->add_flag("--json", arguments->json, "Print the table as one JSON object");
  command->add_flag("--quiet", arguments->quiet, "Do not show progress on stderr");
  command->callback([arguments] { reproduce_table(*arguments); });
}

}  // namespace qkv::apps
