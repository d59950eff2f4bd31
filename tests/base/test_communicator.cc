#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "qkv/base/mpi.h"
#include "qkv/base/tree_sum.h"
#include "tests/support/scratch.h"
#include "tests/support/thread_ranks.h"

namespace qkv {
namespace {

using testing::expect_throw;
using testing::ThreadRanks;

std::string leaf_name(int64_t leaf) { return {static_cast<char>('a' + leaf)}; }

std::string sum_of(std::string left, const std::string& right) { return "(" + left + right + ")"; }

std::string one_process(int64_t leaves) {
  TreeSum<std::string> sum(leaves);
  for (int64_t leaf = 0; leaf < leaves; ++leaf) sum.push({leaf, 0}, leaf_name(leaf), sum_of);
  return sum.take();
}

TEST(TreeSum, SumsInTheOrderOfABinaryTree) {
  EXPECT_EQ(one_process(1), "a");
  EXPECT_EQ(one_process(2), "(ab)");
  EXPECT_EQ(one_process(3), "((ab)c)");
  EXPECT_EQ(one_process(4), "((ab)(cd))");
  EXPECT_EQ(one_process(6), "(((ab)(cd))(ef))");
  EXPECT_EQ(one_process(7), "(((ab)(cd))((ef)g))");
}

TEST(TreeSum, HasTheSameOrderForAnyDivisionOfTheLeaves) {
  for (int64_t leaves = 1; leaves <= 13; ++leaves) {
    const std::string expected = one_process(leaves);
    for (int64_t parts = 1; parts <= leaves; ++parts) {
      TreeSum<std::string> whole(leaves);
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t begin = leaves * part / parts, end = leaves * (part + 1) / parts;
        TreeSum<std::string> own(leaves);
        for (int64_t leaf = begin; leaf < end; ++leaf) own.push({leaf, 0}, leaf_name(leaf), sum_of);
        const std::vector<TreeNode> nodes = tree_nodes(leaves, begin, end);
        ASSERT_EQ(nodes.size(), own.nodes().size());
        for (size_t i = 0; i < nodes.size(); ++i) {
          EXPECT_EQ(nodes[i].index, own.nodes()[i].index);
          EXPECT_EQ(nodes[i].level, own.nodes()[i].level);
          whole.push(nodes[i], own.nodes()[i].sum, sum_of);
        }
      }
      EXPECT_EQ(whole.take(), expected) << leaves << " leaves in " << parts << " parts";
    }
  }
}

TEST(TreeSum, RefusesNoLeavesAndMissingOnes) {
  expect_throw<UsageError>("found 0", [] { TreeSum<int>(0); });
  TreeSum<std::string> sum(3);
  sum.push({0, 0}, "a", sum_of);
  expect_throw<UsageError>("all of 3 leaves", [&] { sum.take(); });
}

TEST(Communicator, BroadcastsAndGathersAmongAnyNumberOfRanks) {
  for (int count = 1; count <= 6; ++count) {
    ThreadRanks(count).run([count](Communicator& ranks) {
      EXPECT_EQ(ranks.broadcast(ranks.is_root() ? std::string("from the root") : std::string()),
                "from the root");
      const std::string own(static_cast<size_t>(ranks.rank()), 'x');
      const std::vector<std::string> all = ranks.all_gather(own);
      ASSERT_EQ(std::ssize(all), count);
      for (int rank = 0; rank < count; ++rank) EXPECT_EQ(std::ssize(all[static_cast<size_t>(rank)]), rank);
      ranks.barrier();
    });
  }
}

TEST(Communicator, KeepsTheOrderOfMessagesBetweenTwoRanks) {
  ThreadRanks(2).run([](Communicator& ranks) {
    const int other = 1 - ranks.rank();
    std::vector<int> sent{ranks.rank() * 10 + 1, ranks.rank() * 10 + 2}, received(2);
    const std::vector<Communicator::Outgoing> outgoing{{other, std::as_bytes(std::span(&sent[0], 1))},
                                                       {other, std::as_bytes(std::span(&sent[1], 1))}};
    const std::vector<Communicator::Incoming> incoming{
        {other, std::as_writable_bytes(std::span(&received[0], 1))},
        {other, std::as_writable_bytes(std::span(&received[1], 1))}};
    ranks.exchange(outgoing, incoming);
    EXPECT_EQ(received, (std::vector<int>{other * 10 + 1, other * 10 + 2}));
  });
}

TEST(Communicator, MessagesThatWereStartedEndWhileOthersAreExchanged) {
  ThreadRanks(2).run([](Communicator& ranks) {
    const int other = 1 - ranks.rank();
    std::vector<int> sent{ranks.rank() + 1, ranks.rank() + 5}, received(2);
    const auto bytes = [](int& value) { return std::as_writable_bytes(std::span(&value, 1)); };
    const Communicator::Incoming in[]{{other, bytes(received[0])}, {other, bytes(received[1])}};
    const auto receiving = ranks.start({}, in);
    const Communicator::Outgoing first{other, bytes(sent[0])}, second{other, bytes(sent[1])};
    const auto sending = ranks.start({&first, 1}, {});
    ranks.start({&second, 1}, {});  // waits, as it is dropped
    EXPECT_EQ(ranks.all_gather("after them"), (std::vector<std::string>{"after them", "after them"}));
    receiving->wait();
    sending->wait();
    EXPECT_EQ(received, (std::vector<int>{other + 1, other + 5}));
    EXPECT_GE(ranks.traffic().bytes_sent, 8);
  });
}

TEST(Communicator, OfOneRankHasNobodyToSendTo) {
  EXPECT_TRUE(alone().is_root());
  EXPECT_EQ(alone().all_gather("own"), std::vector<std::string>{"own"});
  const int value = 5;
  expect_throw<UsageError>("one rank", [&] { alone().send(1, std::as_bytes(std::span(&value, 1))); });
}

TEST(Launcher, CountsTheProcessesOfTheInnermost) {
  std::map<std::string, std::string> variables;
  const auto get = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  EXPECT_EQ(launched_processes(get), 1);
  EXPECT_EQ(launched_on_host(get), 1);
  variables = {{"SLURM_STEP_NUM_TASKS", "7"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x1),3"}};
  EXPECT_EQ(launched_processes(get), 7);
  EXPECT_EQ(launched_on_host(get), 4);
  variables["OMPI_COMM_WORLD_SIZE"] = "2";  // mpirun within Slurm's job
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_EQ(launched_processes(get), 2);
  EXPECT_EQ(launched_on_host(get), 2);
  EXPECT_FALSE(bound_by_launcher(get));
  variables["OMPI_MCA_orte_bound_at_launch"] = "1";
  EXPECT_TRUE(bound_by_launcher(get));
  variables = {{"OMPI_COMM_WORLD_SIZE", "many"}};
  EXPECT_EQ(launched_processes(get), 1);
}

}  // namespace
}  // namespace qkv
