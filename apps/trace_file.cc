#include "apps/trace_file.h"

#include <cerrno>
#include <system_error>

#include "qkv/base/error.h"
#include "qkv/pipelines/json.h"

namespace qkv::apps {

TraceFile::TraceFile(const std::filesystem::path& path, const text::TranslationTokenizer& tokenizer)
    : path_(path), tokenizer_(tokenizer), out_(path) {
  require_written();
}

void TraceFile::add(int64_t line, const pipelines::Translation& translation) {
  const search::SearchTrace trace = translation.trace.value_or(search::SearchTrace());
  out_ << pipelines::with_line(line, pipelines::to_json(trace, tokenizer_)) << '\n';
  require_written();
}

void TraceFile::close() {
  out_.close();
  require_written();
}

void TraceFile::require_written() {
  if (!out_)
    throw IoError(concat(path_.string(), ": cannot be written: ", std::generic_category().message(errno)));
}

}  // namespace qkv::apps
