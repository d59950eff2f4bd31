#pragma once
// What the jobs of `classify` and `tag` share.

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/train/tasks/labels/encoder_job.h"
#include "qkv/train/tasks/labels/label_task.h"

namespace qkv::train {

struct LabelJob : EncoderJob {
  void check() const override;
  std::unique_ptr<Task> make_task(bool resumes, TrainObserver& observer,
                                  const std::atomic<bool>* stop) const override;

 protected:
  // The task's data, read again by each call.
  struct Data {
    std::vector<std::string> labels;  // empty: numbers
    // Writes the training texts, one per line.
    std::function<void(const std::filesystem::path& file)> write_texts;
    std::function<LabelRows(const text::Tokenizer&tokenizer, const std::vector<std::string>&labels,
                            int64_t max_length)>
        encode_train, encode_valid;  // encode_valid: only with validation data
    // Throws DataError for labels that are not among these.
    std::function<void(const std::vector<std::string>& labels)> require_labels;
  };
  // All but the labels, of texts for training and validation; no `held_out`: no validation.
  template <class Texts>
  static Data data_of(const std::shared_ptr<const Texts>& own, const std::shared_ptr<const Texts>& held_out,
                      void (*write)(const Texts& texts, const std::filesystem::path& file),
                      LabelRows (*encode)(const Texts& texts, const text::Tokenizer& tokenizer,
                                          const std::vector<std::string>& labels, int64_t max_length,
                                          const std::atomic<bool>* stop),
                      const std::atomic<bool>* stop);
  // Throws DataError for invalid files.
  virtual Data read_data(const std::atomic<bool>* stop) const = 0;
  // The number of what was read, for messages: "5 texts".
  virtual std::string count(const LabelRows& rows) const = 0;
};

template <class Texts>
LabelJob::Data LabelJob::data_of(const std::shared_ptr<const Texts>& own,
                                 const std::shared_ptr<const Texts>& held_out,
                                 void (*write)(const Texts& texts, const std::filesystem::path& file),
                                 LabelRows (*encode)(const Texts& texts, const text::Tokenizer& tokenizer,
                                                     const std::vector<std::string>& labels,
                                                     int64_t max_length, const std::atomic<bool>* stop),
                                 const std::atomic<bool>* stop) {
  const auto encoder_of = [&](const std::shared_ptr<const Texts>& texts) {
    return [texts, encode, stop](const text::Tokenizer& tokenizer, const std::vector<std::string>& labels,
                                 int64_t max_length) {
      return encode(*texts, tokenizer, labels, max_length, stop);
    };
  };
  Data data;
  data.write_texts = [own, write](const std::filesystem::path& file) { write(*own, file); };
  data.encode_train = encoder_of(own);
  data.encode_valid = encoder_of(held_out);
  data.require_labels = [held_out](const std::vector<std::string>& labels) {
    if (held_out) train::require_labels(*held_out, labels);
  };
  return data;
}

}  // namespace qkv::train
