#include "qkv/train/tasks/labels/tag.h"

#include <memory>

#include "qkv/base/files.h"

namespace qkv::train {
namespace {

template <class Job, class Visit>
void visit_data(Job& job, const Visit& visit) {
  visit("data.word_column", job.format.word_column, kDecidesWeights);
  visit("data.tag_column", job.format.tag_column, kDecidesWeights);
}

using Sentences = std::shared_ptr<const data::TaggedSentences>;

void write_texts(const data::TaggedSentences& sentences, const std::filesystem::path& file) {
  AtomicFile out(file);
  for (const data::TaggedSentence& sentence : sentences.items) {
    std::string line;
    for (const std::string& word : sentence.words) line += (line.empty() ? "" : " ") + word;
    out.write(line + "\n");
  }
  out.commit();
}

}  // namespace

bool TagJob::set_data_field(std::string_view name, std::string_view value) {
  return set_listed([&](const auto& visit) { visit_data(*this, visit); }, name, value);
}

std::vector<Field> TagJob::data_fields() const {
  return listed([&](const auto& visit) { visit_data(*this, visit); });
}

LabelJob::Data TagJob::read_data(const std::atomic<bool>* stop) const {
  const Sentences own =
      std::make_shared<const data::TaggedSentences>(data::read_tagged_sentences(train, format));
  Sentences held_out;
  if (!valid.empty())
    held_out = std::make_shared<const data::TaggedSentences>(data::read_tagged_sentences(valid, format));
  Data data;
  data.labels = label_set(*own);
  data.write_texts = [own](const std::filesystem::path& file) { train::write_texts(*own, file); };
  const auto encoder_of = [stop](const Sentences& sentences) {
    return [sentences, stop](const text::Tokenizer& tokenizer, const std::vector<std::string>& labels,
                             int64_t max_length) {
      return encode_sentences(*sentences, tokenizer, labels, max_length, stop);
    };
  };
  data.encode_train = encoder_of(own);
  data.encode_valid = encoder_of(held_out);
  data.require_labels = [held_out](const std::vector<std::string>& labels) {
    if (held_out) train::require_labels(*held_out, labels);
  };
  return data;
}

}  // namespace qkv::train
