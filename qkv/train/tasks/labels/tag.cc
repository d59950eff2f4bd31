#include "qkv/train/tasks/labels/tag.h"

#include <memory>

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"

namespace qkv::train {
namespace {

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

void TagJob::list(Settings& all) {
  LabelJob::list(all);
  all.flag("model.from",
           {"DIR", "Encoder of texts (bert, deberta-v2, ...) to start from (default: random weights)"});
  all.flag("data.train", {"FILE", "Tagged sentences to train on (default: the resumed run's)"});
  all.flag("data.valid", {"FILE", "Tagged sentences to validate on (default: none)"});
  all.add("data.word_column", format.word_column, kDecidesWeights).flag({"N", "Column of the words, from 1"});
  all.add("data.tag_column", format.tag_column, kDecidesWeights)
      .flag({"N", "Column of the tags, from 1; 0: the last"});
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
  return concat(counted(std::ssize(rows.items), "sentences"), ", ", counted(rows.labels(), "tagged words"));
}

}  // namespace qkv::train
