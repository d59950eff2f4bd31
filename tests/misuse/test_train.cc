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
    EXPECT_FALSE(job.set_field(field.name + "x", "1"));
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "out"));
  TrainOptions options;
  THROWS("limit", options.validate());
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
    if (faults_.other_curves && ++calls_ > 1) result.curves.push_back({"other", 1.0, 1});
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
  run("good", {})();
  THROWS("task", Trainer(nullptr, options, scratch / "a", IfRunExists::refuse));
  EXPECT_FALSE(std::filesystem::exists(scratch / "a"));
  THROWS("stream", run("b", {.no_stream = true})());
  THROWS("batches", run("c", {.no_batch = true})());
  THROWS("curve", run("d", {.no_curves = true})());
  THROWS("curves", run("e", {.other_curves = true})());
  THROWS("", run("f", {.no_loss = true})());
  expect_orderly("no parameters", run("g", {.no_parameters = true}));
  expect_orderly("metrics", run("h", {.unknown_metric = true}));
  options.best_by = "colour";
  THROWS("train.best_by", run("i", {})());
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest}) {
    const CharacterTask task(nursery_rhyme(40), nursery_rhyme(4), {});
    THROWS("batches", Prefetcher(task.batches(1, {}), number));
  }
  THROWS("stream", Prefetcher(nullptr, 1));
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
      THROWS("", RunFolder(path, existing)) << what;
      THROWS("", Trainer(character_task(), options, path, existing)) << what;
    }
    if (path.empty()) continue;  // the current folder
    THROWS("", RunLog{path}) << what;
    THROWS("", RunLog(path, {{"log.jsonl", 5}}, 3)) << what;
    THROWS("", JsonLines{path / "x"}) << what;
    expect_orderly(what, [&] { return CheckpointFolder(path).empty(); });
    expect_orderly(what, [&] { CheckpointFolder(path).load_latest(); });
    THROWS("", CheckpointFolder(path / "x").save({}, {}, {}, 1)) << what;
    THROWS("", open_checkpoint(path)) << what;
    THROWS("", seal_checkpoint(path)) << what;
    THROWS("", data::TokenStore::open(path)) << what;
    expect_orderly(what, [&] { flush_folder(path); });
  }
  THROWS("", [&] {
    const RunFolder held(scratch / "run", IfRunExists::refuse);
    RunFolder(scratch / "run", IfRunExists::refuse);
  }());
  RunFolder folder(scratch / "moved", IfRunExists::refuse);
  const RunFolder taken = std::move(folder);
  // NOLINTBEGIN(bugprone-use-after-move)
  THROWS("", folder.require_there());
  THROWS("", Trainer(character_task(), options, std::move(folder)));
  // NOLINTEND(bugprone-use-after-move)
  THROWS("data.source", RunFolder(scratch / "names", IfRunExists::refuse).record({{"data.source", "\xFF"}}));
  for (const char* const text : {"", "{", "[]", R"({"format": 99})"}) {
    scratch.write("damaged/run.json", text);
    THROWS("run.json", RunFolder(scratch / "damaged", IfRunExists::resume)) << text;
    scratch.write("bad/checkpoints/step-000000003.safetensors", text);
    THROWS("", RunFolder(scratch / "bad", IfRunExists::resume)) << text;
  }
  const TranslationJob job = small_job(scratch, "verified");
  Quiet quiet;
  THROWS("", verify_resume(job, RunFolder(scratch / "verified", IfRunExists::resume), quiet));
}

TEST(MisusedTraining, Checkpoints) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "checkpoints");
  const std::vector<io::NamedTensor> tensors{{"a", Tensor::full({2}, 3)}};
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest}) {
    THROWS("keep", folder.save({}, {}, tensors, number));
    TrainState wrong;
    wrong.steps = number;
    if (number < 0) {
      THROWS("steps", folder.save(wrong, {}, tensors, 1));
    }
  }
  THROWS("name", folder.save({}, {{"name", "\xFF"}}, tensors, 1));
  EXPECT_TRUE(folder.empty());
  TrainState state;
  state.steps = state.micro_steps = state.best_step = kHuge;
  state.cursor = {kHuge, kHuge};
  folder.save(state, {{"", ""}}, tensors, kHuge);
  EXPECT_EQ(folder.load_latest()->state.steps, kHuge);
  state.steps = 5;
  state.best = {{"loss", kNan}};
  expect_orderly("NaN", [&] {
    CheckpointFolder(scratch / "nan").save(state, {}, tensors, 1);
    CheckpointFolder(scratch / "nan").load_latest();
  });
  const CharacterTask task(nursery_rhyme(40), nursery_rhyme(4), {});
  const auto parameters = nn::parameters_of(task);
  THROWS("average", average_weights({}, parameters));
  THROWS("", average_weights({scratch / "none"}, parameters));
  THROWS("", average_weights({scratch / "checkpoints/step-9223372036854775807.safetensors"}, parameters));
  THROWS("", RunLog(scratch.path(), {{"log.jsonl", -5}}, 3));
  expect_orderly("lengths", [&] { RunLog(scratch.path(), {{"log.jsonl", kHuge}, {"../x", 3}}, 3); });
  for (const double number : {kNan, kInfinity, -kInfinity, 1e300, -1e300, 1e17}) {
    const std::vector<Curve> curves{{"a", {{kLowest, number}, {0, 0.5}, {kHuge, -number}}},
                                    {"b", {}},
                                    {"c", {{1, number}, {2, number + 16}}}};
    EXPECT_LT(curves_svg("curves", curves).size(), 20'000u);
    EXPECT_LT(curves_svg("curves", std::span(curves).last(1)).size(), 20'000u);
  }
}

TEST(MisusedData, BatchesAndStores) {
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest}) {
    THROWS("", data::BatchCursor({1, 2}, {.budget = number}));
    THROWS("", data::BatchCursor({1, 2}, {.window = number}));
    THROWS("", data::sequential_batches(std::vector<int64_t>{1, 2}, number));
    THROWS("", data::batches_by_length(std::vector<int64_t>{1, 2}, number));
  }
  THROWS("", data::BatchCursor({}, {}));
  for (const int64_t number : {int64_t{-1}, int64_t{5}, kHuge, kLowest}) {
    THROWS("", data::BatchCursor({1, 2}, {}, {0, number}));
    if (number < 0) {
      THROWS("", data::BatchCursor({1, 2}, {}, {number, 0}));
    }
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
  THROWS("", build({.source = scratch / "none", .target = good.target}, {})());
  THROWS("", build({.source = scratch.path(), .target = good.target}, {})());
  THROWS("", build({}, {})());
  THROWS("", build({.source = scratch.write("e", "\n"), .target = scratch.write("f", "\n")}, {})());
  THROWS("", build({.source = scratch.write("g", "a\n"), .target = good.target}, {})());
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest})
    THROWS("", build(good, {.max_length = number})());
  EXPECT_FALSE(std::filesystem::exists(scratch / "tokens"));
  data::TokenStore store = data::TokenStore::build(good, tokenizer, scratch / "tokens");
  const data::TokenStore taken = std::move(store);
  // NOLINTBEGIN(bugprone-use-after-move)
  EXPECT_EQ(store.pairs(), taken.pairs());
  EXPECT_EQ(store.source(0).size(), taken.source(0).size());
  // NOLINTEND(bugprone-use-after-move)
  for (const int64_t pair : {int64_t{-1}, store.pairs(), kHuge, kLowest}) {
    THROWS("", store.source(pair).size());
    THROWS("", store.line(pair));
    THROWS("", data::make_rows(store, std::span(&pair, 1), {.start = 0, .eos = 0}).source.tokens());
  }
  THROWS("start", [&] {
    const int64_t pair = 0;
    data::make_rows(store, std::span(&pair, 1), {.start = std::nullopt});
  }());
}

}  // namespace
