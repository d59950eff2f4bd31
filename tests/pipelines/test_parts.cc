#include "qkv/pipelines/parts/parts.h"

#include <atomic>
#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/pipelines/parts/content_hash.h"
#include "tests/support/scratch.h"
#include "tests/support/thread_ranks.h"

namespace qkv::pipelines {
namespace {

using testing::expect_parts;
using testing::message_of;
using testing::Scratch;
using testing::ThreadRanks;

// "line 3: error", for lines that contain '!', "3 TEXT" for others.
PartResult numbered(LineChunk chunk) {
  PartResult result;
  result.counts = for_each_line(
      std::move(chunk),
      [](std::span<const std::string> texts, auto numbers) {
        struct Result {
          std::string text, error;
        };
        std::vector<Result> results;
        for (size_t i = 0; i < texts.size(); ++i) {
          const bool bad = texts[i].find('!') != std::string::npos;
          results.push_back({concat(numbers[i], " ", texts[i], "\n"), bad ? "error" : ""});
        }
        return results;
      },
      [&](const Line& line, const auto& found) {
        result.text += found.error.empty() ? found.text : "failed\n";
        if (!found.error.empty()) result.messages.push_back(concat("line ", line.number, ": ", found.error));
      });
  return result;
}

class Parts : public ::testing::Test {
 protected:
  Parts() {
    for (int i = 1; i <= 23; ++i)
      text_ += concat("text ", i, i % 10 == 4 ? "!" : "", i == 7 ? "\xff\r\n" : "\n");
    text_ += "the end";
    options_ = {.input = scratch_.write("in", text_),
                .output = scratch_ / "out",
                .lines = {.chunk_lines = 2},
                .identity = {{"model", "12"}},
                .report = [this](const std::string& message) { messages_.push_back(message); }};
    for (int i = 1; i <= 23; ++i)
      expected_ += i % 10 == 4 ? "failed\n" : concat(i, " text ", i, i == 7 ? "\xff\n" : "\n");
    expected_ += "24 the end\n";
  }

  LineCounts run(Communicator& ranks = alone()) {
    messages_.clear();
    computed_ = 0;
    return run_parts(
        options_, [this](LineChunk chunk) { return ++computed_, numbered(std::move(chunk)); }, ranks);
  }
  // As if the process had been killed before part `last`.
  void run_until(int last) {
    computed_ = 0;
    EXPECT_THROW(run_parts(
                     options_,
                     [&](LineChunk chunk) {
                       if (++computed_ == last) throw Error("killed");
                       return numbered(std::move(chunk));
                     },
                     alone()),
                 Error);
  }
  std::filesystem::path folder() const { return scratch_ / "out.parts"; }

  Scratch scratch_;
  std::string text_, expected_;
  PartOptions options_;
  std::vector<std::string> messages_;
  std::atomic<int> computed_ = 0;
};

TEST_F(Parts, AnyNumberOfRanksWritesTheSameFile) {
  for (const int count : {1, 2, 3, 4, 15}) {  // of 12 parts
    std::filesystem::remove_all(folder());
    std::filesystem::remove(scratch_ / "out");
    std::atomic<int64_t> lines = 0, errors = 0;
    ThreadRanks(count).run([&](Communicator& ranks) {
      PartOptions options = options_;
      if (!ranks.is_root()) options.input = options.output = "/none";
      const LineCounts counts = run_parts(options, numbered, ranks);
      lines += counts.lines;
      errors += counts.errors;
    });
    EXPECT_EQ(read_file(scratch_ / "out"), expected_) << count;
    EXPECT_EQ(lines, 24);
    EXPECT_EQ(errors, 2);
    EXPECT_EQ(files_in(folder()).size(), 1) << "only run.json is left";
  }
}

TEST_F(Parts, ARunThatWasStoppedComputesTheMissingPartsAndRepeatsMessages) {
  run_until(6);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "out"));
  run();
  EXPECT_EQ(computed_, 12 - 5);
  EXPECT_EQ(messages_[0], "line 4: error");
  EXPECT_NE(std::ranges::find(messages_, concat((scratch_ / "out").string(), ": 5 of 12 parts done")),
            messages_.end());
  EXPECT_EQ(read_file(scratch_ / "out"), expected_);
}

TEST_F(Parts, AFinishedRunIsRecognisedByItsOutput) {
  run();
  const LineCounts again = run();
  EXPECT_EQ(computed_, 0);
  EXPECT_EQ(again.errors, 2);
  EXPECT_EQ(messages_, std::vector{concat((scratch_ / "out").string(), ": is finished already")});
  scratch_.write("out", expected_ + "changed\n");
  run();
  EXPECT_EQ(computed_, 12);
  EXPECT_EQ(read_file(scratch_ / "out"), expected_);
}

TEST_F(Parts, PartsOfAnotherRunAreRefused) {
  run_until(6);
  const PartOptions before = options_;
  const auto refused = [this] { return message_of<UsageError>([this] { run(); }); };
  options_.identity[0].second = "13";
  expect_parts(refused(),
               {"out.parts: expected the parts of this run", R"((model: "12", here "13"))", "remove"});
  options_ = before;
  options_.identity.emplace_back("--beam", "2");
  expect_parts(refused(), {R"((--beam: none, here "2"))"});
  options_ = before;
  options_.identity.clear();
  expect_parts(refused(), {R"((model: "12", here none))"});
  options_ = before;
  options_.lines.chunk_lines = 3;
  expect_parts(refused(), {R"((lines of a part: "2", here "3"))"});
  options_ = before;
  scratch_.write("in", text_ + ".");
  expect_parts(refused(), {"(input: "});
  EXPECT_EQ(computed_, 0);
  scratch_.write("in", text_);
  run();
  EXPECT_EQ(computed_, 7) << "and kept";
}

TEST_F(Parts, DamagedPartsAreComputedAgain) {
  run_until(6);
  const auto damage = [this](const char* name, auto change) {
    std::string content = read_file(folder() / name);
    change(content);
    scratch_.write(concat("out.parts/", name), content);
  };
  damage("part-000001", [](std::string& content) { content.pop_back(); });
  damage("part-000002", [](std::string& content) { content.clear(); });
  damage("part-000003",
         [](std::string& content) { content.replace(content.find("\"run\":\"") + 7, 1, "-"); });
  damage("part-000004", [](std::string& content) { content.insert(0, "{"); });
  damage("part-000005", [](std::string& content) { ++content[content.size() - 2]; });
  scratch_.write("out.parts/part-000006.partial-1-1", "half");
  run();
  EXPECT_EQ(computed_, 12);
  EXPECT_EQ(read_file(scratch_ / "out"), expected_);
}

TEST_F(Parts, AnInputThatChangesDuringTheRunIsAnError) {
  const std::string message = message_of<IoError>([&] {
    run_parts(
        options_,
        [&](LineChunk chunk) {
          scratch_.write("in", std::string(text_.size(), 'x'));
          return numbered(std::move(chunk));
        },
        alone());
  });
  expect_parts(message, {"/in: has changed since the start"});
}

TEST_F(Parts, InputsAndOutputsThatCannotBeUsedAreRefused) {
  options_.input = scratch_ / "none";
  expect_parts(message_of<IoError>([&] { run(); }), {"cannot open", "/none: No such file"});
  options_.input = scratch_.path();
  expect_parts(message_of<IoError>([&] { run(); }), {"not a regular file"});
  options_.input = scratch_.write("in.gz", "\x1f\x8b\x08");
  expect_parts(message_of<UsageError>([&] { run(); }),
               {"in.gz: expected a text, found a file compressed by gzip"});
  options_.input = options_.output = scratch_ / "in";
  expect_parts(message_of<UsageError>([&] { run(); }), {"expected another file than the input"});
  options_.output = "/dev/null";
  expect_parts(message_of<UsageError>([&] { run(); }), {"expected a regular file, found /dev/null"});
  options_.output = scratch_ / "in/out";
  expect_parts(message_of<IoError>([&] { run(); }), {"cannot create folder"});
  EXPECT_EQ(read_file(scratch_ / "in"), text_);
}

TEST_F(Parts, AnEmptyInputHasAnEmptyOutput) {
  scratch_.write("in", "");
  EXPECT_EQ(run().lines, 0);
  EXPECT_EQ(read_file(scratch_ / "out"), "");
}

TEST_F(Parts, ARankWithAnotherModelIsNamed) {
  const std::string message = message_of<UsageError>([&] {
    ThreadRanks(3).run([&](Communicator& ranks) {
      PartOptions options = options_;
      if (ranks.rank() == 2) options.identity[0].second = "13";
      run_parts(options, numbered, ranks);
    });
  });
  expect_parts(message, {R"(model: expected "12" as on rank 0, found "13" on rank 2)"});
  EXPECT_FALSE(std::filesystem::exists(folder()));
}

TEST_F(Parts, AnErrorOnTheRootOrOnAnotherRankEndsAll) {
  for (const int bad : {0, 1}) {
    const std::string message = message_of<Error>([&] {
      ThreadRanks(2).run([&](Communicator& ranks) {
        run_parts(
            options_,
            [&](LineChunk chunk) {
              if (ranks.rank() == bad) throw Error("no memory");
              return numbered(std::move(chunk));
            },
            ranks);
      });
    });
    EXPECT_EQ(message, "no memory");
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "out"));
  }
  run();
  EXPECT_EQ(read_file(scratch_ / "out"), expected_);
}

TEST(ContentHash, DependsOnTheFilesOfAModelAndNotOnThoseOfItsTraining) {
  const Scratch scratch;
  scratch.write("model/config.json", "{}");
  scratch.write("model/1_Pooling/config.json", "{}");
  const auto hash = [&] { return content_hash(scratch / "model"); };
  const std::string first = hash();
  scratch.write("model/checkpoints/step", "1");
  scratch.write("model/cache/tokens", "1");
  scratch.write("model/log.jsonl", "1");
  EXPECT_EQ(hash(), first);
  scratch.write("model/1_Pooling/config.json", "[]");
  const std::string second = hash();
  EXPECT_NE(second, first);
  std::filesystem::rename(scratch / "model/config.json", scratch / "model/other.json");
  EXPECT_NE(hash(), second);
}

}  // namespace
}  // namespace qkv::pipelines
