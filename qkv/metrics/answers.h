#pragma once
// Metrics of answers that are spans of texts: those of SQuAD (Rajpurkar et al. 2016), version 2.0 (2018) with
// questions without an answer.

#include <span>
#include <string>
#include <string_view>

namespace qkv::metrics {

// An answer as it is compared, as in SQuAD's official script: lower case, without ASCII punctuation and the
// words a, an and the, with single spaces. Invalid UTF-8 is read as U+FFFD.
std::string normalized_answer(std::string_view answer);

struct AnswerScore {
  double exact = 0;  // 1 if the answer equals one of the right ones, else 0
  double f1 = 0;     // of the words shared with the right answer where it is best
};

// `right`: the right answers; none, or empty ones alone: the question has no answer, and only an empty answer
// is right.
AnswerScore score_answer(std::string_view answer, std::span<const std::string> right);

}  // namespace qkv::metrics
