#pragma once
// A sentence embedding model from a text encoder's folder and a file of sentence pairs.

#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/train/job.h"
#include "qkv/train/tasks/embed/embed_task.h"

namespace qkv::train {

struct EmbedJob : Job {
  std::filesystem::path from;   // folder of a text encoder; of sentence-transformers too
  std::filesystem::path train;  // `score<TAB>first<TAB>second` or `first<TAB>second` lines
  std::filesystem::path valid;  // likewise; empty: no validation
  EmbedTaskOptions task;

  EmbedJob();  // sets a schedule for starting from trained weights

  std::string task_name() const override { return "embed"; }
  void use_preset(std::string_view name) override;  // there is none but ""
  bool has_validation() const override { return !valid.empty(); }
  void check() const override;
  std::unique_ptr<Task> make_task(bool resumes, TrainObserver& observer,
                                  const std::atomic<bool>* stop) const override;

 private:
  void list(Settings& all) override;
  // Takes pooling, normalisation and length from a folder of sentence-transformers.
  void complete_task(const std::set<std::string>& given) override;
  void refuse_unused(const std::set<std::string>& given) const override;
};

}  // namespace qkv::train
