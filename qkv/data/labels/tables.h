#pragma once
// Tables of other programs: names of columns, and files of comma-separated values.

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace qkv::data {

// Lower-case names that columns have in common data sets.
using ColumnNames = std::span<const std::string_view>;
inline constexpr auto kLabelColumn =
    std::to_array<std::string_view>({"label", "labels", "class", "category", "sentiment", "score", "scores",
                                     "rating", "stars", "similarity", "value", "target"});
inline constexpr auto kTextColumn =
    std::to_array<std::string_view>({"text", "text1", "sentence", "sentence1", "sentence_a", "review",
                                     "content", "premise", "question", "query", "anchor"});
inline constexpr auto kSecondTextColumn = std::to_array<std::string_view>(
    {"text2", "sentence2", "sentence_b", "hypothesis", "positive", "answer", "passage", "document"});
inline constexpr auto kWordColumn =
    std::to_array<std::string_view>({"word", "words", "token", "tokens", "form"});
inline constexpr auto kTagColumn =
    std::to_array<std::string_view>({"tag", "tags", "label", "labels", "ner", "ner_tag", "ner_tags",
                                     "pos_tag", "pos_tags", "upos", "entity"});

// Whether the text is one of the names, in any case.
bool is_column(std::string_view text, ColumnNames names);

// Throws DataError for a first line of names, as it is no example.
[[noreturn]] void refuse_header(const std::string& where, std::string_view expected);

// Throws DataError if the file's name ends in .csv or .csv.gz. `remedy`: "convert it".
void refuse_csv(const std::filesystem::path& file, std::string_view expected, std::string_view remedy);

}  // namespace qkv::data
