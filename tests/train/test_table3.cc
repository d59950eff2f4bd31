// Table 3: the summary of runs, and a whole small reproduction.

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/base/files.h"
#include "qkv/base/parallel.h"
#include "qkv/train/table3/report.h"
#include "tests/support/scratch.h"
#include "tests/train/reverse_task.h"

namespace qkv::train {
namespace {

using testing::expect_contains;
using testing::expect_throw;
using testing::message_of;
using testing::Scratch;

Table3Run result_of(const std::string& row, uint64_t seed, double loss, double bleu) {
  return {.row = row,
          .seed = seed,
          .parameters = 1000,
          .steps = 5,
          .loss = loss,
          .bleu = bleu,
          .seconds = 1,
          .failure = {}};
}

Table3Results results_of(const std::vector<std::string>& names, int64_t seeds) {
  Table3Results results;
  results.options.scale = 8;
  results.options.seeds = seeds;
  results.rows = select_table3_rows(names);
  results.finished = true;
  return results;
}

// Worked by hand: the variances within rows are 0.02 (base), 0 and 0.02, on three degrees of freedom.
TEST(Table3Report, PoolsTheVarianceOfSeeds) {
  const std::vector<std::string> names{"A-h1", "C-dmodel1024", "E-learned"};
  Table3Results results = results_of(names, 2);
  results.runs = {result_of("base", 1, 1.0, 20),
                  result_of("base", 2, 1.2, 22),
                  result_of("A-h1", 1, 1.5, 18),
                  result_of("A-h1", 2, 1.5, 18),
                  result_of("C-dmodel1024", 1, 1.1, 19),
                  result_of("C-dmodel1024", 2, 1.3, 21),
                  {.row = "E-learned", .seed = 1, .failure = "the loss is NaN"}};
  const Table3Report report = summarise(results);
  constexpr double kT = 3.182;  // of three degrees of freedom
  const double deviation = std::sqrt((0.02 + 0.02) / 3);
  const Table3Metric& base = report.rows[0].loss.value();
  EXPECT_NEAR(base.mean, 1.1, 1e-12);
  EXPECT_NEAR(base.half_width.value(), kT * deviation / std::sqrt(2.0), 1e-9);
  EXPECT_FALSE(base.order);
  EXPECT_NEAR(report.rows[0].perplexity(), std::exp(1.1), 1e-12);

  const Table3Order& heads = report.rows[1].loss->order.value();
  EXPECT_NEAR(heads.difference, 0.4, 1e-12);
  EXPECT_NEAR(heads.half_width.value(), kT * deviation, 1e-9);
  EXPECT_TRUE(heads.agrees) << "one head is worse";
  EXPECT_FALSE(heads.open());
  EXPECT_TRUE(report.rows[1].bleu->order->agrees);
  const Table3Order& wide = report.rows[2].loss->order.value();
  EXPECT_FALSE(wide.agrees) << "the paper's wide model is better";
  EXPECT_TRUE(wide.open()) << "0.1 is less than the interval";
  EXPECT_FALSE(report.rows[3].loss) << "its only run failed";
  EXPECT_EQ(report.rows[3].failures, 1);

  EXPECT_EQ(report.perplexity.rows, 2);
  EXPECT_EQ(report.perplexity.agreeing, 1);
  EXPECT_EQ(report.perplexity.disagreeing, std::vector<std::string>{"C-dmodel1024"});
  EXPECT_EQ(report.perplexity.pairs, 3);
  EXPECT_EQ(report.perplexity.agreeing_pairs, 2);

  const auto cells = table3_cells(report);
  ASSERT_EQ(cells.size(), 5u);
  EXPECT_EQ(cells[2][1], "h 1, d_k 64, d_v 64") << "at scale 8";
  EXPECT_EQ(cells[2][8], "yes");
  EXPECT_EQ(cells[3][8], "no?");
  EXPECT_EQ(cells[4][3], "diverged");
  EXPECT_NE(table3_conclusions(report)[0].find("1 of 2 rows"), std::string::npos);
  EXPECT_NE(table3_conclusions(report)[0].find("not C-dmodel1024?."), std::string::npos);
  const std::string svg = table3_svg(report);
  EXPECT_NE(svg.find(">A-h1</text>"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

// A run that is worse than a uniform guess learned nothing. Its loss would widen all intervals.
TEST(Table3Report, LeavesOutRunsWorseThanAUniformGuess) {
  const std::vector<std::string> names{"C-N8"};
  Table3Results results = results_of(names, 2);
  const double uniform = std::log(4625.0);  // at scale 8
  results.runs = {result_of("base", 1, 1.0, 20), result_of("base", 2, 1.2, 22),
                  result_of("C-N8", 1, uniform - 1e-3, 18), result_of("C-N8", 2, uniform + 1e-3, 0)};
  const Table3Report report = summarise(results);
  EXPECT_EQ(report.rows[1].failures, 1);
  EXPECT_NEAR(report.rows[1].loss->mean, uniform - 1e-3, 1e-12);
  EXPECT_NEAR(report.rows[0].loss->half_width.value(), 12.706 * std::sqrt(0.02 / 2), 1e-3);
  EXPECT_NE(table3_cells(report)[2][3].find("(1 diverged)"), std::string::npos);
  EXPECT_NE(table3_conclusions(report).back().find("uniform guess, 4625"), std::string::npos);
  results.runs.resize(3);
  EXPECT_NE(table3_conclusions(summarise(results)).back().find("95 %"), std::string::npos);
}

// A row that the paper puts level with base has no order; one seed gives no interval.
TEST(Table3Report, LeavesOpenWhatThePaperLeavesOpen) {
  const std::vector<std::string> names{"E-learned"};
  Table3Results results = results_of(names, 1);
  results.runs = {result_of("base", 1, 1.0, 20), result_of("E-learned", 1, 1.5, 19)};
  const Table3Report report = summarise(results);
  EXPECT_FALSE(report.rows[0].loss->half_width);
  EXPECT_TRUE(report.rows[1].loss->order->equal_in_paper);
  EXPECT_EQ(report.perplexity.rows, 0);
  EXPECT_EQ(report.perplexity.pairs, 0);
  EXPECT_EQ(report.bleu.agreeing, 1);
  EXPECT_EQ(table3_cells(report)[2][8], "tie");
}

// Counts runs and stops after some steps.
class Table3Watcher : public Table3Observer {
 public:
  explicit Table3Watcher(int64_t stop_after = -1) : left_(stop_after) {}
  void on_run(const Table3Progress& progress) override {
    started.push_back(concat(progress.row, progress.seed));
  }
  void on_progress(const Table3Progress& progress, const StepReport& /*report*/) override {
    if (progress.seconds_left) {
      EXPECT_GE(*progress.seconds_left, 0);
      ++estimates;
    }
    if (--left_ == 0) stop = true;
  }
  void on_run_end(const Table3Progress& /*progress*/, const Table3Run& run) override {
    ended += run.failure.empty() ? 1 : 0;
  }

  std::vector<std::string> started;
  int64_t ended = 0;
  int64_t estimates = 0;  // reports of the time that is left
  std::atomic<bool> stop = false;

 private:
  int64_t left_;
};

class Table3Reproduction : public ::testing::Test {
 protected:
  Table3Reproduction() {
    testing_task::write_reversals(scratch_, "data/train", 60, 1);
    testing_task::write_reversals(scratch_, "data/val", 5, 2);
  }
  Table3Options options() const {
    return {.data = scratch_ / "data",
            .source_lang = "source",
            .target_lang = "target",
            .scale = 16,
            .steps = 4,
            .batch_tokens = 100,
            .warmup_steps = 2,
            .rate_factor = 0.3f,
            .seeds = 2,
            .rows = {"B-dk16", "C-N2"},
            .runs_at_once = 1};
  }
  std::string refusal(const std::string& folder, const Table3Options& given) const {
    Table3Watcher watcher;
    return message_of<UsageError>([&] { reproduce_table3(scratch_ / folder, given, watcher); });
  }

  Scratch scratch_;
};

TEST_F(Table3Reproduction, InterruptedGivesTheSameTable) {
  Table3Watcher whole;
  const Table3Results expected = reproduce_table3(scratch_ / "whole", options(), whole);
  EXPECT_TRUE(expected.finished);
  ASSERT_EQ(expected.runs.size(), 6u);
  EXPECT_EQ(whole.started,
            (std::vector<std::string>{"base1", "B-dk161", "C-N21", "base2", "B-dk162", "C-N22"}));
  for (const Table3Run& run : expected.runs) {
    EXPECT_EQ(run.steps, 4) << run.row;
    EXPECT_GT(run.loss, 0.5) << run.row;
    EXPECT_EQ(run.failure, "");
  }
  EXPECT_EQ(whole.estimates, 6 * 4) << "from the first step on";
  EXPECT_NE(expected.runs[0].loss, expected.runs[3].loss) << "seeds differ";
  EXPECT_LT(expected.runs[2].parameters, expected.runs[0].parameters);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "whole/base-seed1/checkpoints"));
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "whole/base-seed1/model.safetensors"));

  // Stopped in the second step of the second run, moved, stopped in the fifth run.
  Table3Watcher first(6);
  const Table3Results stopped = reproduce_table3(scratch_ / "part", options(), first, &first.stop);
  EXPECT_FALSE(stopped.finished);
  EXPECT_EQ(stopped.runs.size(), 1u);
  std::filesystem::rename(scratch_ / "part", scratch_ / "moved");
  Table3Watcher second(2 + 4 + 4 + 1);
  EXPECT_FALSE(reproduce_table3(scratch_ / "moved", options(), second, &second.stop).finished);
  EXPECT_EQ(second.started, (std::vector<std::string>{"B-dk161", "C-N21", "base2", "B-dk162"}));
  EXPECT_EQ(table3_options_in(scratch_ / "moved")->steps, 4);
  EXPECT_EQ(table3_options_in(scratch_ / "moved")->rate_factor, 0.3f);
  Table3Watcher third;
  EXPECT_TRUE(reproduce_table3(scratch_ / "moved", options(), third, &third.stop).finished);
  EXPECT_EQ(third.started, (std::vector<std::string>{"B-dk162", "C-N22"}));
  for (const char* name : {"table3.md", "table3.tsv", "table3.svg"})
    EXPECT_EQ(read_file(scratch_ / "moved" / name), read_file(scratch_ / "whole" / name)) << name;
  for (const char* name : {"B-dk16-seed1/model.safetensors", "B-dk16-seed2/model.safetensors"})
    EXPECT_EQ(read_file(scratch_ / "moved" / name), read_file(scratch_ / "whole" / name)) << name;

  // Nothing is left to do; more seeds and rows are added to what is there.
  Table3Watcher fourth;
  reproduce_table3(scratch_ / "whole", options(), fourth);
  EXPECT_TRUE(fourth.started.empty());
  Table3Options more = options();
  more.seeds = 3;
  more.rows = {"C-N2"};
  reproduce_table3(scratch_ / "whole", more, fourth);
  EXPECT_EQ(fourth.started, (std::vector<std::string>{"base3", "C-N23"}));
}

class Table3RunsAtOnce : public Table3Reproduction {
 protected:
  Table3RunsAtOnce() { set_threads(3); }
  ~Table3RunsAtOnce() override { set_threads(before_); }

 private:
  int before_ = threads();
};

TEST_F(Table3RunsAtOnce, HaveTheBitsOfOneAfterAnother) {
  Table3Watcher one;
  reproduce_table3(scratch_ / "one", options(), one);
  Table3Options at_once = options();
  at_once.runs_at_once = 3;
  Table3Watcher first(7);
  EXPECT_FALSE(reproduce_table3(scratch_ / "three", at_once, first, &first.stop).finished);
  Table3Watcher second;
  const Table3Results results = reproduce_table3(scratch_ / "three", at_once, second);
  EXPECT_TRUE(results.finished);
  EXPECT_EQ(results.runs.size(), 6u);
  EXPECT_EQ(first.ended + second.ended, 6);
  for (const char* name : {"table3.md", "table3.tsv", "table3.svg"})
    EXPECT_EQ(read_file(scratch_ / "three" / name), read_file(scratch_ / "one" / name)) << name;
  for (const char* name : {"base-seed1/model.safetensors", "C-N2-seed2/model.safetensors"})
    EXPECT_EQ(read_file(scratch_ / "three" / name), read_file(scratch_ / "one" / name)) << name;
}

// The other runs, which would take hours, are saved and end.
TEST_F(Table3RunsAtOnce, AnErrorOfOneStopsTheOthers) {
  Table3Options at_once = options();
  at_once.steps = 1'000'000;
  at_once.rows = {"C-N2"};
  at_once.runs_at_once = 2;
  Table3Watcher begun(1);
  EXPECT_FALSE(reproduce_table3(scratch_ / "out", at_once, begun, &begun.stop).finished);
  std::filesystem::remove_all(scratch_ / "out/C-N2-seed1");
  scratch_.write("out/C-N2-seed1", "a file where a folder belongs");
  Table3Watcher watcher;
  expect_throw<Error>("C-N2-seed1", [&] { reproduce_table3(scratch_ / "out", at_once, watcher); });
  EXPECT_EQ(watcher.ended, 0);
}

TEST_F(Table3RunsAtOnce, AreThoseOfSmallModelsByDefault) {
  Table3Options given = options();
  given.runs_at_once = 0;
  EXPECT_EQ(table3_runs_at_once(given), 3);
  given.scale = 4;
  EXPECT_EQ(table3_runs_at_once(given), 1);
  given.runs_at_once = 2;
  EXPECT_EQ(table3_runs_at_once(given), 2);
  given.runs_at_once = 5;
  EXPECT_EQ(table3_runs_at_once(given), 3) << "the threads";
  given.runs_at_once = -1;
  EXPECT_NE(refusal("new", given).find("runs_at_once: expected 0 or more, found -1"), std::string::npos);
}

TEST_F(Table3Reproduction, ADivergedRunIsReportedAndTheOthersGoOn) {
  Table3Options one_row = options();
  one_row.seeds = 1;
  one_row.rows = {"C-N2"};
  Table3Watcher first(6);  // base is trained, C-N2 has begun
  EXPECT_FALSE(reproduce_table3(scratch_ / "out", one_row, first, &first.stop).finished);
  scratch_.write(
      "out/C-N2-seed1/result.json",
      R"({"row": "C-N2", "seed": 1, "parameters": 5, "steps": 0, "seconds": 1, "failure": "step 3: the loss is NaN"})");
  Table3Watcher second;
  const Table3Results results = reproduce_table3(scratch_ / "out", one_row, second);
  EXPECT_TRUE(results.finished);
  EXPECT_TRUE(second.started.empty());
  EXPECT_NE(read_file(scratch_ / "out/table3.md").find("diverged"), std::string::npos);
  expect_contains(read_file(scratch_ / "out/table3.tsv"), "C-N2\t1\t5\t0\tdiverged\tdiverged\t6.11");
}

// Texts that do not fit each other are refused before the folder becomes theirs.
TEST_F(Table3Reproduction, RefusesTextsOfUnequalLength) {
  const std::string whole = read_file(scratch_ / "data/train.target");
  scratch_.write("data/train.target", whole.substr(whole.find('\n') + 1));
  Table3Watcher watcher(1);
  expect_throw<DataError>("expected equal numbers of lines, found 60 in",
                          [&] { reproduce_table3(scratch_ / "out", options(), watcher); });
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "out"));
  scratch_.write("data/train.target", whole);
  EXPECT_FALSE(reproduce_table3(scratch_ / "out", options(), watcher, &watcher.stop).finished);
}

TEST_F(Table3Reproduction, RefusesOtherSettingsDataAndFolders) {
  Table3Watcher watcher(1);
  reproduce_table3(scratch_ / "out", options(), watcher, &watcher.stop);
  const auto changed = [&](auto&& change) {
    Table3Options other = options();
    change(other);
    return refusal("out", other);
  };
  expect_contains(changed([](Table3Options& o) { o.scale = 8; }),
                  "scale: expected 16 as in the reproduction in");
  expect_contains(changed([](Table3Options& o) { o.steps = 5; }), "steps: expected 4 as in");
  EXPECT_NE(changed([](Table3Options& o) { o.scale = 5; }).find("found 5"), std::string::npos);
  EXPECT_NE(changed([](Table3Options& o) { o.steps = 0; }).find("steps: expected 1 to"), std::string::npos);
  EXPECT_NE(changed([](Table3Options& o) { o.seeds = 0; }).find("seeds: expected 1 to"), std::string::npos);
  expect_contains(changed([](Table3Options& o) { o.rate_factor = 1e6f; }),
                  "rate_factor: expected more than 0 and less than 1000000, found 1e+06");
  expect_contains(changed([](Table3Options& o) { o.max_minutes = 1e7; }),
                  "max_minutes: expected 0 to less than 10000000, found 1e+07");
  EXPECT_NE(changed([](Table3Options& o) { o.rows = {"A-h3"}; }).find("found 'A-h3'"), std::string::npos);
  expect_contains(changed([](Table3Options& o) { o.data.clear(); }), "data: expected a folder");
  expect_contains(changed([](Table3Options& o) { o.target_lang = "source"; }), "target_lang");
  testing_task::write_reversals(scratch_, "other/train", 60, 3);
  testing_task::write_reversals(scratch_, "other/val", 5, 4);
  expect_contains(changed([&](Table3Options& o) { o.data = scratch_ / "other"; }), "found others");

  // Rows of an earlier version, whose models began otherwise, cannot be compared with this one's.
  std::string settings = read_file(scratch_ / "out/table3.json");
  const std::string field = "\"residual_start\": 0.1,";
  ASSERT_NE(settings.find(field), std::string::npos) << settings;
  settings.replace(settings.find(field), field.size(), "");
  scratch_.write("out/table3.json", settings);
  expect_contains(refusal("out", options()),
                  "residual_start: expected 0.1, the start of this version's runs, found 1 in ");

  scratch_.write("mine/notes.txt", "mine");
  EXPECT_NE(refusal("mine", options()).find("found other files"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "mine/table3.json"));
  std::filesystem::remove(scratch_ / "other/val.target");
  Table3Options missing = options();
  missing.data = scratch_ / "other";
  expect_throw<IoError>("found no val.target", [&] { reproduce_table3(scratch_ / "new", missing, watcher); });
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "new"));
  scratch_.write("out/table3.json", "{");
  Table3Watcher quiet;
  expect_throw<DataError>("table3.json", [&] { reproduce_table3(scratch_ / "out", options(), quiet); });
}

}  // namespace
}  // namespace qkv::train
