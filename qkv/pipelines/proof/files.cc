#include "qkv/pipelines/proof/files.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/checksums.h"
#include "qkv/io/crc32c.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/speech_model.h"

namespace qkv::pipelines {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeights = ".safetensors";
constexpr size_t kDigits = 8;
constexpr size_t kMaxFields = 100;

constexpr const char* kFiles[] = {"config.json",
                                  "generation_config.json",
                                  "preprocessor_config.json",
                                  "processor_config.json",
                                  "modules.json",
                                  "sentence_bert_config.json",
                                  "1_Pooling/config.json",
                                  "tokenizer_config.json",
                                  "special_tokens_map.json",
                                  "added_tokens.json",
                                  "tokenizer.json",
                                  "vocab.json",
                                  "target_vocab.json",
                                  "vocab.txt",
                                  "merges.txt",
                                  "source.spm",
                                  "target.spm",
                                  "tokenizer.model",
                                  "spiece.model",
                                  "sentencepiece.bpe.model",
                                  "spm.model",
                                  "model.safetensors"};

bool has_fields(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with("config.json") || name == "special_tokens_map.json";
}

std::vector<std::pair<std::string, std::string>> fields_of(const std::string& text, const fs::path& path) {
  std::vector<std::pair<std::string, std::string>> fields;
  if (!has_fields(path)) return fields;
  parse_json(text, path.string()).members([&](std::string_view key, const JsonValue& value) {
    if (fields.size() < kMaxFields) fields.emplace_back(key, value.excerpt());
  });
  return fields;
}

FileProof prove_file(const fs::path& folder, const std::string& name) {
  const fs::path path = folder / name;
  if (name.ends_with(kWeights)) {
    const io::SafetensorsFile file(path, MapFor::reading);
    return {name, io::checksum_text(io::crc32c(file.header())), {}};
  }
  const std::string text = read_file(path);
  return {name, io::checksum_text(io::crc32c(text)), fields_of(text, path)};
}

// The fields that were changed, added or removed.
void compare_fields(const FileProof& expected, const FileProof& found, std::vector<std::string>& parted) {
  const auto value_in = [](const FileProof& file, const std::string& key) {
    const auto field = std::ranges::find(file.fields, key, [](const auto& one) { return one.first; });
    return field == file.fields.end() ? std::string("no such field") : field->second;
  };
  const size_t before = parted.size();
  const auto compare = [&](const std::string& key) {
    const std::string was = value_in(expected, key), is = value_in(found, key);
    if (was != is) parted.push_back(concat(found.name, ": ", key, ": expected ", was, ", found ", is));
  };
  for (const auto& [key, value] : expected.fields) compare(key);
  for (const auto& [key, value] : found.fields) {
    if (value_in(expected, key) == "no such field") compare(key);
  }
  if (parted.size() == before)
    parted.push_back(concat(found.name, ": expected the bytes of the export (CRC-32C ", expected.checksum,
                            "), found others (", found.checksum, ")"));
}

// A nearly square table.
int64_t width_of(int64_t size) {
  return std::max<int64_t>(1, std::llround(std::ceil(std::sqrt(static_cast<double>(size)))));
}

struct Table {
  std::vector<uint32_t> rows, columns;
};

Table table_of(const text::Tokenizer& tokenizer) {
  const int64_t size = tokenizer.size(), width = width_of(size);
  Table table{std::vector<uint32_t>(static_cast<size_t>((size + width - 1) / width)),
              std::vector<uint32_t>(static_cast<size_t>(width))};
  for (int64_t id = 0; id < size; ++id) {
    const std::optional<std::string_view> token = tokenizer.token(static_cast<int32_t>(id));
    const std::string entry = concat(token ? token->size() + 1 : 0, ":", token.value_or(""));
    uint32_t& row = table.rows[static_cast<size_t>(id / width)];
    uint32_t& column = table.columns[static_cast<size_t>(id % width)];
    row = io::crc32c(entry, row);
    column = io::crc32c(entry, column);
  }
  return table;
}

std::string digits_of(const std::vector<uint32_t>& sums) {
  std::string text;
  for (const uint32_t sum : sums) text += io::checksum_text(sum);
  return text;
}

std::vector<int64_t> differing(const std::string& expected, const std::string& found) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < found.size(); i += kDigits) {
    if (expected.compare(i, kDigits, found, i, kDigits) != 0)
      places.push_back(static_cast<int64_t>(i / kDigits));
  }
  return places;
}

std::vector<std::pair<std::string, text::Tokenizer>> tokenizers_of(const models::TranslationModel& model) {
  const text::TranslationTokenizer& both = *model.tokenizer;
  if (!both.separate_vocabularies()) return {{"vocabulary", both.tokenizer(text::Side::target)}};
  return {{"source vocabulary", both.tokenizer(text::Side::source)},
          {"target vocabulary", both.tokenizer(text::Side::target)}};
}
std::vector<std::pair<std::string, text::Tokenizer>> tokenizers_of(const LoadedImageEncoder& /*loaded*/) {
  return {};
}
std::vector<std::pair<std::string, text::Tokenizer>> tokenizers_of(const LoadedDualEncoder& loaded) {
  return {{"vocabulary", loaded.text->tokenizer}};
}
template <class Loaded>
std::vector<std::pair<std::string, text::Tokenizer>> tokenizers_of(const Loaded& loaded) {
  return {{"vocabulary", loaded.tokenizer}};
}

std::vector<std::pair<std::string, text::Tokenizer>> tokenizers(const OpenedModel& model) {
  return std::visit([](const auto& opened) { return tokenizers_of(*opened); }, model);
}

void compare_vocabulary(const text::Tokenizer& tokenizer, const VocabularyProof& expected,
                        const VocabularyProof& found, std::vector<std::string>& parted) {
  if (found.size != expected.size || found.rows.size() != expected.rows.size() ||
      found.columns.size() != expected.columns.size()) {
    parted.push_back(concat(found.name, ": expected ", expected.size, " entries, found ", found.size));
    return;
  }
  const std::vector<int64_t> rows = differing(expected.rows, found.rows),
                             columns = differing(expected.columns, found.columns);
  if (rows.empty() && columns.empty()) return;
  constexpr size_t kMaxNamed = 8;
  const int64_t width = width_of(found.size);
  if (rows.size() * columns.size() > kMaxNamed) {
    parted.push_back(concat(found.name, ": expected the entries at export, found differences from id ",
                            rows.empty() ? 0 : rows.front() * width, " on"));
    return;
  }
  for (const int64_t row : rows) {
    for (const int64_t column : columns) {
      const int64_t id = row * width + column;
      if (id >= found.size) continue;
      parted.push_back(concat(found.name, ": id ", id, ": expected the token of the export, found '",
                              tokenizer.token(static_cast<int32_t>(id)).value_or(""), "'"));
    }
  }
}

}  // namespace

bool has_inputs(const fs::path& folder) {
  constexpr const char* kTokenizers[] = {
      "tokenizer.json", "vocab.txt",       "source.spm",   "vocab.json",
      "merges.txt",     "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
      "spm.model"};
  const models::FolderKind kind = models::folder_kind(folder);
  const bool reads_images = kind == models::FolderKind::image || kind == models::FolderKind::image_text;
  if (reads_images && !models::has_image_processor(folder)) return false;
  if (kind == models::FolderKind::image) return true;
  return std::ranges::any_of(kTokenizers, [&](const char* name) { return fs::exists(folder / name); });
}

std::vector<FileProof> prove_files(const fs::path& folder) {
  std::vector<FileProof> proofs;
  for (const char* const name : kFiles) {
    if (fs::exists(folder / name)) proofs.push_back(prove_file(folder, name));
  }
  return proofs;
}

std::vector<std::string> compare_files(const fs::path& folder, const std::vector<FileProof>& expected) {
  std::vector<std::string> parted;
  for (const FileProof& was : expected) {
    if (!fs::exists(folder / was.name)) {
      parted.push_back(concat(was.name, ": expected this file, found none"));
      continue;
    }
    try {
      const FileProof is = prove_file(folder, was.name);
      if (is.checksum != was.checksum) compare_fields(was, is, parted);
    } catch (const Error& error) {
      parted.push_back(concat(was.name, ": ", error.what()));
    }
  }
  for (const char* const name : kFiles) {
    if (fs::exists(folder / name) && std::ranges::find(expected, name, &FileProof::name) == expected.end())
      parted.push_back(concat(name, ": expected no such file (there was none at export), found one"));
  }
  return parted;
}

std::vector<VocabularyProof> prove_vocabularies(const OpenedModel& model) {
  std::vector<VocabularyProof> proofs;
  for (const auto& [name, tokenizer] : tokenizers(model)) {
    const Table table = table_of(tokenizer);
    proofs.push_back({name, tokenizer.size(), digits_of(table.rows), digits_of(table.columns)});
  }
  return proofs;
}

std::vector<std::string> compare_vocabularies(const OpenedModel& model,
                                              const std::vector<VocabularyProof>& expected) {
  std::vector<std::string> parted;
  const std::vector<VocabularyProof> found = prove_vocabularies(model);
  const auto all = tokenizers(model);
  if (found.size() != expected.size()) {
    parted.push_back(concat("vocabularies: expected ", expected.size(), ", found ", found.size()));
    return parted;
  }
  for (size_t i = 0; i < found.size(); ++i) compare_vocabulary(all[i].second, expected[i], found[i], parted);
  return parted;
}

}  // namespace qkv::pipelines
