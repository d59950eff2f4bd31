#include "qkv/data/labels/labelled_texts.h"

#include <optional>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/data/labels/json_lines.h"
#include "qkv/data/labels/tables.h"
#include "qkv/text/lines.h"

namespace qkv::data {
namespace {

TextFormat format_of(std::string_view line, const std::filesystem::path& file) {
  refuse_csv(file, "label<TAB>text, the label, a space and the text, or JSON lines",
             "convert it, or give the format");
  if (line.starts_with('{')) return TextFormat::json;
  return line.find('\t') != line.npos ? TextFormat::tab : TextFormat::space;
}

std::vector<std::string> columns_of(const std::string& line, TextFormat format) {
  std::vector<std::string> columns;
  size_t begin = 0;
  for (;;) {
    const bool last = format == TextFormat::space && columns.size() == 1;
    const size_t end = last ? line.npos : line.find(format == TextFormat::space ? ' ' : '\t', begin);
    columns.push_back(line.substr(begin, end - begin));
    if (end == line.npos) return columns;
    begin = end + 1;
  }
}

// The label and one or two texts.
std::vector<std::string> read_json(const std::string& line, const std::string& where) {
  const JsonValue object = parse_json(line, where);
  std::vector<std::string> columns{label_text(object["label"]), object["text"].string()};
  if (const auto second = object.find("text_pair")) columns.push_back(second->string());
  return columns;
}

void require_columns(size_t count, std::optional<size_t> first, TextFormat format, const std::string& where) {
  const bool good =
      (count == 2 || (count == 3 && format != TextFormat::space)) && count == first.value_or(count);
  if (good) return;
  const char* const form = format == TextFormat::space ? "the label, a space and the text"
                                                       : "label<TAB>text or label<TAB>text<TAB>text";
  if (first) {
    throw DataError(concat(where, ": expected ", *first, " columns as in the first line, found ", count));
  }
  throw DataError(concat(where, ": expected ", form, ", found ", count, count == 1 ? " column" : " columns"));
}

}  // namespace

std::string LabelledTexts::where(const LabelledText& item) const {
  return concat(file.string(), ":", item.line);
}

LabelledTexts read_labelled_texts(const std::filesystem::path& file, TextFormat format) {
  LabelledTexts texts{.file = file, .pairs = false, .items = {}};
  text::LineReader reader(file);
  std::optional<size_t> first;
  for (std::string line; reader.next(line);) {
    if (text::is_blank(line)) continue;
    reader.require_utf8(line);
    if (format == TextFormat::automatic) format = format_of(line, file);
    const std::string where = concat(file.string(), ":", reader.lines());
    std::vector<std::string> columns =
        format == TextFormat::json ? read_json(line, where) : columns_of(line, format);
    require_columns(columns.size(), first, format, where);
    if (!first && format != TextFormat::json && is_column(columns[0], kLabelColumn) &&
        is_column(columns[1], kTextColumn))
      refuse_header(where, "a label and its text");
    first = columns.size();
    for (size_t i = 0; i < columns.size(); ++i) {
      if (!text::is_blank(columns[i])) continue;
      throw DataError(concat(where, ": expected ", i == 0 ? "a label" : "a text", ", found an empty one"));
    }
    columns.resize(3);
    texts.items.push_back({.label = std::move(columns[0]),
                           .first = std::move(columns[1]),
                           .second = std::move(columns[2]),
                           .line = reader.lines()});
  }
  if (!first) throw DataError(concat(file.string(), ": expected labelled texts, found none"));
  texts.pairs = *first == 3;
  return texts;
}

}  // namespace qkv::data
