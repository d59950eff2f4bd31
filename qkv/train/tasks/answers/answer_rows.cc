#include "qkv/train/tasks/answers/answer_rows.h"

#include <algorithm>
#include <optional>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/base/stop.h"
#include "qkv/base/utf8.h"
#include "qkv/pipelines/answers/answer.h"
#include "qkv/text/steps/unicode.h"

namespace qkv::train {
namespace {

// Whether a text has only characters that normalizers remove: accents, controls, format characters.
bool is_unseen(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const char32_t character = next_character(text, at);
    if (!text::is_mark(character) && !text::is_other(character)) return false;
  }
  return true;
}

// The rows of the tokens that have the bytes from begin to end of the context; nothing if the window lacks a
// part of them.
std::optional<std::pair<int32_t, int32_t>> rows_of(const pipelines::AnswerTokens& tokens,
                                                   const text::Encoding& encoding, std::string_view context,
                                                   size_t begin, size_t end) {
  std::optional<std::pair<int32_t, int32_t>> found;
  size_t from = std::string_view::npos, to = 0;  // what the window has
  for (const int64_t row : tokens.rows) {
    const text::ByteRange bytes = encoding.offsets[static_cast<size_t>(row)];
    from = std::min(from, bytes.begin);
    to = std::max(to, bytes.end);
    if (bytes.end <= begin || bytes.begin >= end) continue;
    if (!found) found.emplace(static_cast<int32_t>(row), 0);
    found->second = static_cast<int32_t>(row);
  }
  const bool whole = found && (from <= begin || is_unseen(context.substr(begin, from - begin))) &&
                     (to >= end || is_unseen(context.substr(to, end - to)));
  return whole ? found : std::nullopt;
}

struct Encoded {
  std::vector<LabelRow> rows;
  std::vector<pipelines::AnswerTokens> tokens;
  bool reached = false;
};

Encoded encoded(const data::Questions& questions, const data::Question& question,
                const text::Tokenizer& tokenizer, const text::Windows& windows) {
  const std::optional<int32_t> none = tokenizer.special_tokens().cls;
  const std::string& context = questions.contexts[question.context];
  const auto fail = [&](const std::string& why) {
    throw DataError(concat(questions.file.string(), ": ", question.where, ": ", why));
  };
  if (question.answers.empty() && !none)
    fail("expected an answer, because the tokenizer has no [CLS] token to stand for none, found none");
  std::vector<text::EncodedWindow> parts;
  try {
    parts = tokenizer.encode_windows(question.question, context, windows);
  } catch (const UsageError& error) {
    fail(error.what());
  }
  if (parts.empty()) fail(pipelines::long_question(tokenizer, question.question, windows.max_length));
  Encoded result{.rows = {}, .tokens = pipelines::answer_tokens(parts, context, none)};
  for (size_t w = 0; w < parts.size(); ++w) {
    text::Encoding& encoding = parts[w].encoding;
    const pipelines::AnswerTokens& tokens = result.tokens[w];
    const int32_t nothing = tokens.none ? static_cast<int32_t>(*tokens.none) : kNoLabel;
    LabelRow row{.ids = {}, .types = {}, .labels = {nothing, nothing}};
    if (!question.answers.empty()) {
      const data::RightAnswer& answer = question.answers.front();
      if (const auto rows =
              rows_of(tokens, encoding, context, answer.begin, answer.begin + answer.text.size())) {
        row.labels = {rows->first, rows->second};
        result.reached = true;
      }
    }
    row.ids = std::move(encoding.ids);
    row.types = std::move(encoding.type_ids);
    result.rows.push_back(std::move(row));
  }
  return result;
}

}  // namespace

AnswerRows encode_answers(const data::Questions& questions, const text::Tokenizer& tokenizer,
                          const text::Windows& windows, AnswerUse use, const std::atomic<bool>* stop) {
  std::vector<Encoded> all(questions.items.size());
  parallel_for(std::ssize(all), 16, [&](int64_t begin, int64_t end) {
    throw_if_stopped(stop);
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      all[i] = encoded(questions, questions.items[i], tokenizer, windows);
      if (use == AnswerUse::training) all[i].tokens = {};
    }
  });
  AnswerRows result;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].reached && !questions.items[i].answers.empty()) ++result.unreached;
    for (size_t w = 0; w < all[i].rows.size(); ++w) {
      result.rows.items.push_back(std::move(all[i].rows[w]));
      if (use == AnswerUse::evaluation) result.tokens.push_back(std::move(all[i].tokens[w]));
      result.questions.push_back(i);
    }
  }
  return result;
}

}  // namespace qkv::train
