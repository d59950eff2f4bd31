#include <gtest/gtest.h>

#include <fstream>

#include "qkv/train/run_folder.h"
#include "tests/support/scratch.h"

namespace qkv::train {
namespace {

using testing::message_of;
using testing::Scratch;

const Fields kRunSettings{{"task", "characters"}, {"train.seed", "7"}};

TEST(RunFolder, RemovesWhatKilledRunsLeftButOnlyUnderTheLock) {
  const Scratch scratch;
  for (const char* part : {"cache", "checkpoints", "runs", "snapshots", "mine"})
    std::filesystem::create_directories(scratch / part);
  const std::vector<std::string> litter{
      "model.safetensors.partial-12", "cache/train.tokens.partial-12", "cache/train.tokens.index.partial-12",
      "checkpoints/step-000000001.safetensors.partial-9.partial-9", "snapshots/step-1.safetensors.partial-3"};
  const std::vector<std::string> others{"my.partial-copy", "mine/x.partial-1", "notes.partial-",
                                        "model.safetensors"};
  for (const auto& names : {litter, others}) {
    for (const std::string& name : names) scratch.write(name, "half");
  }
  std::filesystem::create_directories(scratch / "checkpoints/best-model.partial-4/x");
  {
    const FolderLock other(scratch.path());
    EXPECT_THROW(RunFolder(scratch.path(), IfRunExists::resume), UsageError);
    EXPECT_TRUE(std::filesystem::exists(scratch / litter[0])) << "another process may be writing it";
  }
  const RunFolder folder(scratch.path(), IfRunExists::resume);
  for (const std::string& name : litter) EXPECT_FALSE(std::filesystem::exists(scratch / name)) << name;
  EXPECT_FALSE(std::filesystem::exists(scratch / "checkpoints/best-model.partial-4"));
  for (const std::string& name : others) EXPECT_TRUE(std::filesystem::exists(scratch / name)) << name;
}

TEST(RunFolder, SettingsOutliveAKillBeforeTheFirstCheckpoint) {
  const Scratch scratch;
  {
    RunFolder folder(scratch.path(), IfRunExists::refuse);
    EXPECT_FALSE(folder.settings());
    folder.record(kRunSettings);
  }
  {
    RunFolder folder(scratch.path(), IfRunExists::resume);
    EXPECT_EQ(folder.settings(), kRunSettings);
    EXPECT_FALSE(folder.resumes());
    folder.record(kRunSettings);
    folder.withdraw();
  }
  EXPECT_EQ(RunFolder(scratch.path(), IfRunExists::resume).settings(), kRunSettings)
      << "of the first process";
  RunFolder(scratch.path(), IfRunExists::resume).forget_record();
  EXPECT_FALSE(RunFolder(scratch.path(), IfRunExists::resume).settings());
}

TEST(RunFolder, ARunThatCannotStartLeavesNothingOfItsOwn) {
  const Scratch scratch;
  const auto withdraw = [](const std::filesystem::path& path) {
    RunFolder folder(path, IfRunExists::refuse);
    folder.record(kRunSettings);
    folder.withdraw();
  };
  withdraw(scratch / "own");
  EXPECT_FALSE(std::filesystem::exists(scratch / "own"));
  std::filesystem::create_directory(scratch / "empty");
  withdraw(scratch / "empty");
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "empty"));
  {
    RunFolder folder(scratch / "used", IfRunExists::refuse);
    std::ofstream(scratch / "used/notes") << "of the user";
    folder.withdraw();
  }
  EXPECT_TRUE(std::filesystem::exists(scratch / "used/notes"));
}

// A run that replaces another is the one to continue, though the checkpoints are still those of the other.
TEST(RunFolder, ARunThatHasBegunComesBeforeOlderCheckpoints) {
  const Scratch scratch;
  TrainState state;
  state.steps = 8;
  CheckpointFolder(scratch / "checkpoints")
      .save(state, {{"task", "old"}}, {{"weights/a", Tensor::zeros({2})}}, 2);
  RunFolder(scratch.path(), IfRunExists::replace).record(kRunSettings);
  EXPECT_FALSE(RunFolder(scratch.path(), IfRunExists::resume).resumes());
  RunFolder(scratch.path(), IfRunExists::resume).forget_record();
  RunFolder folder(scratch.path(), IfRunExists::resume);
  EXPECT_TRUE(folder.resumes());
  EXPECT_EQ(folder.steps(), 8);
  EXPECT_EQ(folder.settings()->at("task"), "old");
  EXPECT_EQ(folder.take_checkpoint()->state.steps, 8);
}

TEST(RunFolder, AFlippedBitOfTheSettingsIsFound) {
  const Scratch scratch;
  RunFolder(scratch.path(), IfRunExists::refuse).record(kRunSettings);
  const std::string whole = read_file(scratch / "run.json");
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 7));
    scratch.write("run.json", bytes);
    try {  // if the bit has no meaning, as in white space, the settings are unchanged
      EXPECT_EQ(RunFolder(scratch.path(), IfRunExists::resume).settings(), kRunSettings) << i;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("run.json"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace qkv::train
