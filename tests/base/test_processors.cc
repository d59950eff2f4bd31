#include "qkv/base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "tests/support/scratch.h"

namespace qkv {
namespace {

// A machine's /proc/self/cgroup and /sys/fs/cgroup.
class Processors : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    root_.write(name, content);
  }
  std::optional<double> quota() const { return cgroup_processors(root_.path()); }

  testing::Scratch root_;
};

TEST_F(Processors, NoQuotaWithoutCgroups) {
  EXPECT_EQ(quota(), std::nullopt);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(Processors, QuotaOfCgroupVersion2) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(Processors, UsesTheSmallestQuotaOfTheGroupAndItsParents) {
  write("proc/self/cgroup", "0::/system.slice/a:b.service\n");
  write("sys/fs/cgroup/system.slice/a:b.service/cpu.max", "800000 100000\n");
  EXPECT_EQ(quota(), 8.0);
  write("sys/fs/cgroup/system.slice/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota(), 2.5);
  write("sys/fs/cgroup/system.slice/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 8.0);
}

TEST_F(Processors, QuotaOfCgroupVersion1) {
  write("proc/self/cgroup", "4:memory:/docker/0a\n3:cpu,cpuacct:/docker/0a\n0::/\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");  // the container sees its own group as the root
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST(AvailableProcessors, FollowTheAffinityMask) {
  EXPECT_GE(available_processors(), 1);
  int within_one = 0;
  std::thread([&] {
    cpu_set_t mask;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(mask), &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(mask), &mask), 0);
    within_one = available_processors();
  }).join();
  EXPECT_EQ(within_one, 1);
}

}  // namespace
}  // namespace qkv
