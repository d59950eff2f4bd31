#pragma once
// A classifier of texts, or of pairs of texts, from labelled ones.

#include "qkv/data/labels/labelled_texts.h"
#include "qkv/train/tasks/labels/label_job.h"

namespace qkv::data {
Words<TextFormat> words(TextFormat);  // "auto", "tab", "space", "json"
}

namespace qkv::train {

struct ClassifyJob : LabelJob {
  data::TextFormat format = data::TextFormat::automatic;
  bool regression = false;  // labels are numbers to predict

  std::string task_name() const override { return "classify"; }

 protected:
  Data read_data(const std::atomic<bool>* stop) const override;
  models::ClassificationTarget target() const override { return models::ClassificationTarget::texts; }
  std::string count(const LabelRows& rows) const override;
  void list(Settings& all) override;
  void refuse_unused(const std::set<std::string>& given) const override;
};

}  // namespace qkv::train
