// Training and data: options out of range, tasks that break their contract, broken folders and files.

#include <gtest/gtest.h>

#include <climits>
#include <limits>

#include "qkv/base/files.h"
#include "qkv/base/stop.h"
#include "qkv/data/batches_by_length.h"
#include "qkv/data/translation_rows.h"
#include "qkv/train/average.h"
#include "qkv/train/curve_svg.h"
#include "qkv/train/job.h"
#include "qkv/train/prefetcher.h"
#include "qkv/train/run_log.h"
#include "qkv/train/verify.h"
#include "tests/support/misuse.h"
#include "tests/support/scratch.h"
#include "tests/train/character_run.h"
#include "tests/train/reverse_task.h"

namespace {

using namespace qkv;
using namespace qkv::train;
using namespace qkv::testing;
using namespace qkv::train::testing_task;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max(), kLowest = std::numeric_limits<int64_t>::min();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInfinity = std::numeric_limits<double>::infinity();

const std::vector<const char*>& strange_values() {
  static const std::vector<const char*> all{
      "",    "-1",   "0",    "1",    "9223372036854775807", "-9223372036854775808", "1e300", "nan",
      "inf", "true", "none", "\xFF", "18446744073709551615"};
  return all;
}

// Every setting with every strange value: refused, or the run can be prepared.
TEST(MisusedTraining, EverySetting) {
  const Scratch scratch;
  const TranslationJob plain = small_job(scratch, "out");
  for (const Field& field : plain.fields()) {
    for (const char* const value : strange_values()) {
      TranslationJob job = plain;
      expect_orderly(field.name + "=" + value, [&] {
        EXPECT_TRUE(job.set_field(field.name, value)) << field.name;
        job.check();
        job.trainer_options().validate();
      });
    }
    TranslationJob job = plain;
    EXPECT_FALSE((++misuses, job.set_field(field.name + "x", "1")));
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "out"));
  TrainOptions options;
  expect_refusal("limit", "none", [&] { options.validate(); });
  options.max_steps = 1;
  for (const int number : {-1, 9, INT_MAX}) {
    options.optimizer_kind = static_cast<OptimizerKind>(number);
    expect_orderly("kind", [&] { options.validate(); });
    options.schedule.kind = static_cast<ScheduleKind>(number);
    expect_orderly("kind", [&] { return learning_rate(options.schedule, number); });
  }
  for (const int64_t step : {int64_t{0}, int64_t{-1}, kHuge, kLowest}) {
    for (const auto kind :
         {ScheduleKind::paper, ScheduleKind::inverse_sqrt, ScheduleKind::cosine, ScheduleKind::constant}) {
      ++misuses;
      const ScheduleOptions schedule{.kind = kind, .warmup_steps = 10, .total_steps = 20};
      EXPECT_TRUE(std::isfinite(learning_rate(schedule, step)));
      EXPECT_TRUE(std::isfinite(learning_rate({.kind = kind, .warmup_steps = step, .total_steps = step}, 5)));
    }
  }
}

// The character task with faults.
struct Faults {
  bool no_stream = false, no_batch = false, no_curves = false, other_curves = false, no_loss = false;
  bool no_parameters = false, unknown_metric = false;
};

class FaultyTask : public CharacterTask {
 public:
  explicit FaultyTask(const Faults& faults)
      : CharacterTask(nursery_rhyme(40), nursery_rhyme(4), {}), faults_(faults) {}

  std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const override {
    if (faults_.no_stream) return nullptr;
    if (faults_.no_batch) return std::make_unique<Nothing>();
    return CharacterTask::batches(seed, from);
  }
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override {
    BatchLoss result = CharacterTask::loss(batch, step, context);
    if (faults_.no_curves) result.curves.clear();
    if (faults_.other_curves && ++calls_ > 1) result.curves.push_back({"other", 1, 1});
    if (faults_.no_loss) result.loss = {};
    return result;
  }
  void visit(const nn::ParameterVisitor& visitor) const override {
    if (!faults_.no_parameters) CharacterTask::visit(visitor);
  }
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override {
    if (!faults_.unknown_metric) return CharacterTask::evaluate(request);
    return Evaluation{.loss = kNan, .metrics = {{"\xFF", kNan}}};
  }

 private:
  struct Nothing : BatchStream {
    std::unique_ptr<Batch> next() override { return nullptr; }
    data::CursorState state() const override { return {}; }
    int64_t batches_in_epoch() const override { return 0; }
  };
  Faults faults_;
  mutable int calls_ = 0;
};

TEST(MisusedTraining, Tasks) {
  const Scratch scratch;
  TrainOptions options = short_run();
  options.max_steps = 4;
  const auto run = [&](const std::string& name, const Faults& faults) {
    return [&, name, faults] {
      Quiet quiet;
      Trainer(std::make_unique<FaultyTask>(faults), options, scratch / name, IfRunExists::refuse).run(quiet);
    };
  };
  ++misuses;
  run("good", {})();
  expect_refusal("task", "null", [&] { Trainer(nullptr, options, scratch / "a", IfRunExists::refuse); });
  EXPECT_FALSE(std::filesystem::exists(scratch / "a"));
  expect_refusal("stream", "null", run("b", {.no_stream = true}));
  expect_refusal("batches", "null", run("c", {.no_batch = true}));
  expect_refusal("curve", "none", run("d", {.no_curves = true}));
  expect_refusal("curves", "others", run("e", {.other_curves = true}));
  expect_refusal("", "no loss", run("f", {.no_loss = true}));
  expect_orderly("no parameters", run("g", {.no_parameters = true}));
  expect_orderly("metrics", run("h", {.unknown_metric = true}));
  options.best_by = "colour";
  expect_refusal("train.best_by", "unknown", run("i", {}));
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest}) {
    const CharacterTask task(nursery_rhyme(40), nursery_rhyme(4), {});
    expect_refusal("batches", "steps", [&] { Prefetcher(task.batches(1, {}), number); });
  }
  expect_refusal("stream", "null", [] { Prefetcher(nullptr, 1); });
}

TEST(MisusedTraining, Folders) {
  const Scratch scratch;
  const TrainOptions options = short_run();
  const auto file = scratch.write("file", "x");
  const std::string longest(5000, 'x');
  for (const std::filesystem::path& path : {std::filesystem::path(), file, file / "inside", scratch / longest,
                                            std::filesystem::path("/proc/none")}) {
    const std::string what = path.string().substr(0, 60);
    for (const auto existing : {IfRunExists::refuse, IfRunExists::resume, IfRunExists::replace}) {
      expect_refusal("", what, [&] { RunFolder(path, existing); });
      expect_refusal("", what, [&] { Trainer(character_task(), options, path, existing); });
    }
    if (path.empty()) continue;  // the current folder
    expect_refusal("", what, [&] { RunLog{path}; });
    expect_refusal("", what, [&] { RunLog(path, {{"log.jsonl", 5}}, 3); });
    expect_refusal("", what, [&] { JsonLines{path / "x"}; });
    expect_orderly(what, [&] { return CheckpointFolder(path).empty(); });
    expect_orderly(what, [&] { CheckpointFolder(path).load_latest(); });
    expect_refusal("", what, [&] { CheckpointFolder(path / "x").save({}, {}, {}, 1); });
    expect_refusal("", what, [&] { open_checkpoint(path); });
    expect_refusal("", what, [&] { seal_checkpoint(path); });
    expect_refusal("", what, [&] { data::TokenStore::open(path); });
    expect_orderly(what, [&] { flush_folder(path); });
  }
  expect_refusal("", "locked", [&] {
    const RunFolder held(scratch / "run", IfRunExists::refuse);
    RunFolder(scratch / "run", IfRunExists::refuse);
  });
  RunFolder folder(scratch / "moved", IfRunExists::refuse);
  const RunFolder taken = std::move(folder);
  // NOLINTBEGIN(bugprone-use-after-move)
  expect_refusal("", "moved", [&] { folder.require_there(); });
  expect_refusal("", "moved", [&] { Trainer(character_task(), options, std::move(folder)); });
  // NOLINTEND(bugprone-use-after-move)
  expect_refusal("data.source", "UTF-8", [&] {
    RunFolder(scratch / "names", IfRunExists::refuse).record({{"data.source", "\xFF"}});
  });
  for (const char* const text : {"", "{", "[]", R"({"format": 99})"}) {
    scratch.write("damaged/run.json", text);
    expect_refusal("run.json", text, [&] { RunFolder(scratch / "damaged", IfRunExists::resume); });
    scratch.write("bad/checkpoints/step-000000003.safetensors", text);
    expect_refusal("", text, [&] { RunFolder(scratch / "bad", IfRunExists::resume); });
  }
  const TranslationJob job = small_job(scratch, "verified");
  Quiet quiet;
  expect_refusal("", "no checkpoint",
                 [&] { verify_resume(job, RunFolder(scratch / "verified", IfRunExists::resume), quiet); });
}

TEST(MisusedTraining, Checkpoints) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "checkpoints");
  const std::vector<io::NamedTensor> tensors{{"a", Tensor::full({2}, 3)}};
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest}) {
    expect_refusal("keep", "range", [&] { folder.save({}, {}, tensors, number); });
    TrainState wrong;
    wrong.steps = number;
    if (number < 0) expect_refusal("steps", "range", [&] { folder.save(wrong, {}, tensors, 1); });
  }
  expect_refusal("name", "UTF-8", [&] { folder.save({}, {{"name", "\xFF"}}, tensors, 1); });
  EXPECT_TRUE(folder.empty());
  TrainState state;
  state.steps = state.micro_steps = state.best_step = kHuge;
  state.cursor = {kHuge, kHuge};
  folder.save(state, {{"", ""}}, tensors, kHuge);
  misuses += 2;
  EXPECT_EQ(folder.load_latest()->state.steps, kHuge);
  state.steps = 5;
  state.best = {{"loss", kNan}};
  expect_orderly("NaN", [&] {
    CheckpointFolder(scratch / "nan").save(state, {}, tensors, 1);
    CheckpointFolder(scratch / "nan").load_latest();
  });
  const CharacterTask task(nursery_rhyme(40), nursery_rhyme(4), {});
  const auto parameters = nn::parameters_of(task);
  expect_refusal("average", "no files", [&] { average_weights({}, parameters); });
  expect_refusal("", "no file", [&] { average_weights({scratch / "none"}, parameters); });
  expect_refusal("", "other tensors", [&] {
    average_weights({scratch / "checkpoints/step-9223372036854775807.safetensors"}, parameters);
  });
  expect_refusal("", "lengths", [&] { RunLog(scratch.path(), {{"log.jsonl", -5}}, 3); });
  expect_orderly("lengths", [&] { RunLog(scratch.path(), {{"log.jsonl", kHuge}, {"../x", 3}}, 3); });
  for (const double number : {kNan, kInfinity, -kInfinity, 1e300, -1e300, 1e17}) {
    const std::vector<Curve> curves{{"a", {{kLowest, number}, {0, 0.5}, {kHuge, -number}}},
                                    {"b", {}},
                                    {"c", {{1, number}, {2, number + 16}}}};
    ++misuses;
    EXPECT_LT(curves_svg(curves).size(), 20'000u);
    EXPECT_LT(curves_svg(std::span(curves).last(1)).size(), 20'000u);
  }
}

TEST(MisusedData, BatchesAndStores) {
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest}) {
    expect_refusal("", "budget", [&] { data::BatchCursor({1, 2}, {.budget = number}); });
    expect_refusal("", "window", [&] { data::BatchCursor({1, 2}, {.window = number}); });
    expect_refusal("", "budget", [&] { data::sequential_batches(std::vector<int64_t>{1, 2}, number); });
    expect_refusal("", "budget", [&] { data::batches_by_length(std::vector<int64_t>{1, 2}, number); });
  }
  expect_refusal("", "no items", [] { data::BatchCursor({}, {}); });
  for (const int64_t number : {int64_t{-1}, int64_t{5}, kHuge, kLowest}) {
    expect_refusal("", "state", [&] { data::BatchCursor({1, 2}, {}, {0, number}); });
    if (number < 0) expect_refusal("", "state", [&] { data::BatchCursor({1, 2}, {}, {number, 0}); });
  }
  for (const int64_t cost : {int64_t{0}, int64_t{-1}, kHuge, kLowest}) {
    expect_orderly("costs", [&] {
      data::BatchCursor cursor({cost, 1, cost}, {.budget = kHuge, .window = kHuge});
      cursor.next();
    });
  }
  const Scratch scratch;
  const auto tokenizer =
      text::TranslationTokenizer::load(std::filesystem::path(QKV_TEST_DATA) / "pipelines/golden/marian");
  const data::CorpusFiles good = write_reversals(scratch, "good", 5, 1);
  const auto build = [&](const data::CorpusFiles& files, const data::CorpusOptions& options) {
    return [&, files, options] { data::TokenStore::build(files, tokenizer, scratch / "tokens", options); };
  };
  expect_refusal("", "no file", build({.source = scratch / "none", .target = good.target}, {}));
  expect_refusal("", "a folder", build({.source = scratch.path(), .target = good.target}, {}));
  expect_refusal("", "empty paths", build({}, {}));
  expect_refusal("", "no pairs",
                 build({.source = scratch.write("e", "\n"), .target = scratch.write("f", "\n")}, {}));
  expect_refusal("", "unequal", build({.source = scratch.write("g", "a\n"), .target = good.target}, {}));
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest})
    expect_refusal("", "length", build(good, {.max_length = number}));
  EXPECT_FALSE(std::filesystem::exists(scratch / "tokens"));
  data::TokenStore store = data::TokenStore::build(good, tokenizer, scratch / "tokens");
  const data::TokenStore taken = std::move(store);
  // NOLINTBEGIN(bugprone-use-after-move)
  ++misuses;
  EXPECT_EQ(store.pairs(), taken.pairs());
  EXPECT_EQ(store.source(0).size(), taken.source(0).size());
  // NOLINTEND(bugprone-use-after-move)
  for (const int64_t pair : {int64_t{-1}, store.pairs(), kHuge, kLowest}) {
    expect_refusal("", "pair", [&] { return store.source(pair).size(); });
    expect_refusal("", "pair", [&] { return store.line(pair); });
    expect_refusal("", "pair", [&] {
      return data::make_rows(store, std::span(&pair, 1), {.start = 0, .eos = 0}).source.tokens();
    });
  }
  expect_refusal("start", "none", [&] {
    const int64_t pair = 0;
    data::make_rows(store, std::span(&pair, 1), {.start = std::nullopt});
  });
}

}  // namespace
