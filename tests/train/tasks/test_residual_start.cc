// The branches of models that `qkv train` begins from random weights (nn/residual_branches.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/nn/residual_branches.h"
#include "tests/train/label_run.h"
#include "tests/train/reverse_task.h"

namespace qkv::train {
namespace {

using testing::Scratch;

// The largest weight of the matrix, as a share of Glorot's and Bengio's bound, sqrt(6 / (inputs + outputs)).
double share_of_bound(const Task& task, const std::string& suffix) {
  double largest = 0;
  for (const auto& [name, parameter] : nn::parameters_of(task)) {
    if (!name.ends_with(suffix)) continue;
    const double bound = std::sqrt(6.0 / static_cast<double>(parameter.shape[0] + parameter.shape[1]));
    for (const float x : parameter.variable.value().values())
      largest = std::max(largest, std::abs(double{x}) / bound);
  }
  return largest;
}

template <class Job>
std::unique_ptr<Task> begun(Job& job, const Scratch& scratch) {
  job.folder = scratch / "out";
  std::filesystem::create_directories(job.folder);
  TrainObserver observer;
  std::unique_ptr<Task> task = job.make_task(false, observer, nullptr);
  task->initialise(1);
  return task;
}

template <class Job>
std::unique_ptr<Task> label_task(const Scratch& scratch, const std::string& text) {
  Job job;
  testing::set_small(job);
  job.train = scratch.write("train", text);
  return begun(job, scratch);
}

void expect_branches(const Task& task, double share) {
  for (const char* end : {"self_attn.out_proj.weight", "fc2.weight"}) {
    EXPECT_LE(share_of_bound(task, end), share * (1 + 1e-6)) << end;
    EXPECT_GT(share_of_bound(task, end), share * 0.9) << end;
  }
  EXPECT_GT(share_of_bound(task, "fc1.weight"), 0.9) << "the other matrices are as they were";
}

TEST(ResidualStart, TranslationBeginsWithSmallBranches) {
  const Scratch scratch;
  TranslationJob job = testing_task::small_job(scratch, "out");
  const std::unique_ptr<Task> task = begun(job, scratch);
  expect_branches(*task, nn::kResidualStart);
  EXPECT_LE(share_of_bound(*task, "encoder_attn.out_proj.weight"), nn::kResidualStart * (1 + 1e-6));
}

TEST(ResidualStart, TagsBeginSoAndClassesDoNot) {
  const Scratch tags, classes;
  expect_branches(*label_task<TagJob>(tags, testing::tagged_words(20)), nn::kResidualStart);
  expect_branches(*label_task<ClassifyJob>(classes, testing::colour_texts(20)), 1);
}

}  // namespace
}  // namespace qkv::train
