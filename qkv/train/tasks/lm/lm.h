#pragma once
// A language model from a text file: tokenizer, documents, training, model folder.

#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/data/documents.h"
#include "qkv/models/shape.h"
#include "qkv/train/job.h"
#include "qkv/train/tasks/lm/lm_task.h"

namespace qkv::train {

enum class LmBlocks { gpt2, llama };  // see models::gpt2(), models::llama()

// Where the text and its tokens come from.
struct LmDataOptions {
  std::filesystem::path train;
  std::filesystem::path valid;  // empty: the last `valid_share` of the training text
  double valid_share = 0.1;     // of its bytes, in whole documents; 0: no validation
  data::DocumentBounds documents = data::DocumentBounds::blank_lines;
  bool skip_bad_utf8 = false;
  // "bpe": byte-level BPE, trained on the training text; "chars": its characters; else a tokenizer's folder
  // or file.
  std::string tokenizer = "bpe";
  int64_t vocab_size = 8000;  // of "bpe"; smaller if the text yields fewer tokens
};

// Defaults: AdamW with the settings of nanoGPT, a cosine schedule.
struct LmJob : Job {
  LmJob();

  // A folder of a language model to start from, with its tokenizer; empty: random weights. `blocks` then has
  // no effect, and of `shape` only the rates of dropout have; the rest records the folder's.
  std::filesystem::path from;
  LmBlocks blocks = LmBlocks::gpt2;
  models::ModelShape shape;
  LmOptions task;
  LmDataOptions corpus;

  std::string task_name() const override { return "lm"; }
  // Those of lm_preset_names().
  void use_preset(std::string_view name) override;
  bool has_validation() const override { return !corpus.valid.empty() || corpus.valid_share > 0; }
  void check() const override;
  std::unique_ptr<Task> make_task(bool resumes, TrainObserver& observer,
                                  const std::atomic<bool>* stop) const override;

 private:
  void list(Settings& all) override;
  Defaults short_run() const override;
  // Characters are one document; LLaMA's blocks have d_ff = 8/3 d_model, in multiples of 32. With `from`, the
  // learning rate is 5e-5, and the run has 3 epochs; throws UsageError naming a setting that the folder
  // decides.
  void complete_task(const std::set<std::string>& given) override;
  void refuse_unused(const std::set<std::string>& given) const override;
};

// models::shape_preset_names(), and "characters": LLaMA's blocks for some millions of characters.
std::vector<std::string> lm_preset_names();

}  // namespace qkv::train
