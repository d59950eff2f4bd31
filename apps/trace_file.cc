#include "apps/trace_file.h"

#include <nlohmann/json.hpp>

#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

const char* describe(search::TraceEntry::Fate fate) {
  switch (fate) {
    case search::TraceEntry::Fate::kept:
      return "kept";
    case search::TraceEntry::Fate::finished:
      return "finished";
    case search::TraceEntry::Fate::pruned:
      break;
  }
  return "pruned";
}

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& path, const text::TranslationTokenizer& tokenizer)
    : path_(path), tokenizer_(tokenizer), out_(path) {
  require_written();
}

void TraceFile::add(int64_t line, const pipelines::Translation& translation) {
  nlohmann::ordered_json object{{"line", line}, {"steps", nlohmann::ordered_json::array()}};
  if (translation.trace) {
    std::vector<std::vector<std::string>> kept{{}}, next;  // the tokens of the hypotheses that go on
    for (const auto& step : translation.trace->steps) {
      nlohmann::ordered_json entries = nlohmann::ordered_json::array();
      next.clear();
      for (const search::TraceEntry& entry : step) {
        const std::vector<std::string>& hypothesis = kept.at(static_cast<size_t>(entry.row));
        const std::string token(tokenizer_.piece(entry.id));
        entries.push_back({{"hypothesis", hypothesis},
                           {"token", token},
                           {"log_probability", entry.log_probability},
                           {"total", entry.total},
                           {"penalty", entry.penalty},
                           {"coverage", entry.coverage},
                           {"score", entry.score},
                           {"fate", describe(entry.fate)}});
        if (entry.fate != search::TraceEntry::Fate::kept) continue;
        next.push_back(hypothesis);
        next.back().push_back(token);
      }
      kept = next;
      object["steps"].push_back(std::move(entries));
    }
  }
  // What is no UTF-8 can come out of byte pieces.
  out_ << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  require_written();
}

void TraceFile::close() {
  out_.close();
  require_written();
}

void TraceFile::require_written() {
  if (!out_) throw IoError(concat(path_.string(), ": cannot be written"));
}

}  // namespace qkv::apps
