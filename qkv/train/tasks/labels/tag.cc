#include "qkv/train/tasks/labels/tag.h"

#include <memory>

#include "qkv/base/error.h"
#include "qkv/base/files.h"

namespace qkv::train {
namespace {

template <class Job, class Visit>
void visit_data(Job& job, const Visit& visit) {
  visit("data.word_column", job.format.word_column, kDecidesWeights);
  visit("data.tag_column", job.format.tag_column, kDecidesWeights);
}

using Sentences = std::shared_ptr<const data::TaggedSentences>;

void write_sentences(const data::TaggedSentences& sentences, const std::filesystem::path& file) {
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
  Data data = data_of(own, held_out, write_sentences, encode_sentences, stop);
  data.labels = label_set(*own);
  return data;
}

std::string TagJob::count(const LabelRows& rows) const {
  return concat(rows.items.size(), " sentences, ", rows.labels(), " tagged words");
}

}  // namespace qkv::train
