#include "qkv/train/tasks/labels/classify.h"

#include <array>
#include <memory>

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"

namespace qkv::data {

Words<TextFormat> words(TextFormat) {
  static constexpr std::array<std::pair<std::string_view, TextFormat>, 4> kWords{
      {{"auto", TextFormat::automatic},
       {"tab", TextFormat::tab},
       {"space", TextFormat::space},
       {"json", TextFormat::json}}};
  return kWords;
}

}  // namespace qkv::data

namespace qkv::train {
namespace {

using Texts = std::shared_ptr<const data::LabelledTexts>;

void write_labelled_texts(const data::LabelledTexts& texts, const std::filesystem::path& file) {
  AtomicFile out(file);
  for (const data::LabelledText& item : texts.items) {
    out.write(item.first + "\n");
    if (texts.pairs) out.write(item.second + "\n");
  }
  out.commit();
}

}  // namespace

void ClassifyJob::list(Settings& all) {
  LabelJob::list(all);
  all.add("data.format", format, kDecidesWeights)
      .flag({"|",
             "Columns separated by tabs, a label and a text separated by a space, or JSON lines; auto: by "
             "the first line"});
  all.add("data.regression", regression, kDecidesWeights).flag({"", "Labels are numbers to predict"});
}

void ClassifyJob::refuse_unused(const std::set<std::string>& given) const {
  LabelJob::refuse_unused(given);
  if (regression && task.label_smoothing > 0)
    refuse_given(given, {"train.label_smoothing"}, "with data.regression");
}

LabelJob::Data ClassifyJob::read_data(const std::atomic<bool>* stop) const {
  const Texts own = std::make_shared<const data::LabelledTexts>(data::read_labelled_texts(train, format));
  Texts held_out;
  if (!valid.empty())
    held_out = std::make_shared<const data::LabelledTexts>(data::read_labelled_texts(valid, format));
  if (held_out && held_out->pairs != own->pairs) {
    const auto columns = [](bool pairs) { return pairs ? "pairs of texts" : "single texts"; };
    throw DataError(concat(valid.string(), ": expected ", columns(own->pairs), " as in ", train.string(),
                           ", found ", columns(held_out->pairs)));
  }
  Data data = data_of(own, held_out, write_labelled_texts, encode_texts, stop);
  if (regression) {
    require_numbers(*own);
    if (held_out) require_numbers(*held_out);
  } else {
    data.labels = label_set(*own);
  }
  return data;
}

std::string ClassifyJob::count(const LabelRows& rows) const {
  return counted(std::ssize(rows.items), "texts");
}

}  // namespace qkv::train
