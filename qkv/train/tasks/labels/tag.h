#pragma once
// A tagger of words from tagged sentences.

#include "qkv/data/labels/tagged_sentences.h"
#include "qkv/train/tasks/labels/label_job.h"

namespace qkv::train {

struct TagJob : LabelJob {
  TagJob() { encoder.lowercase = false; }  // capitals tell names

  data::TaggedFormat format;

  std::string task_name() const override { return "tag"; }

 protected:
  Data read_data(const std::atomic<bool>* stop) const override;
  models::ClassificationTarget target() const override { return models::ClassificationTarget::tokens; }
  std::string count(const LabelRows& rows) const override;
  void list(Settings& all) override;
};

}  // namespace qkv::train
