#pragma once
// Small data and runs of `classify`, `tag` and `answer`, with the vocabulary of the golden folders of BERT.

#include <array>
#include <string>

#include "qkv/base/files.h"
#include "qkv/train/tasks/answers/answer.h"
#include "qkv/train/tasks/labels/classify.h"
#include "qkv/train/tasks/labels/tag.h"
#include "tests/support/scratch.h"

namespace qkv::testing {

inline std::filesystem::path golden_model(const std::string& name) {
  return std::filesystem::path(QKV_TEST_DATA) / "models" / "golden" / name;
}

// "good" texts are about something red, "bad" ones about something blue.
inline std::string colour_texts(int count) {
  constexpr std::array kNouns{"man", "dog", "house"}, kVerbs{"runs", "sleeps", "sleeping"};
  std::string text;
  for (int i = 0; i < count; ++i) {
    const bool red = i * 7 % 5 < 2;
    text += concat(red ? "good" : "bad", "\t", i % 3 == 0 ? "a " : "the ", red ? "red " : "blue ",
                   kNouns.at(static_cast<size_t>(i % 3)), " ", kVerbs.at(static_cast<size_t>(i / 3 % 3)),
                   i % 4 == 0 ? " in the house ." : " .", "\n");
  }
  return text;
}

// The tag of "red" and "blue" depends on the word before.
inline std::string tagged_words(int count) {
  constexpr std::array kNouns{"man", "dog", "house"};
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += concat(i % 2 == 0 ? "the\tDET\n" : "a\tDET\n", i % 3 == 0 ? "red\tADJ\n" : "",
                   kNouns.at(static_cast<size_t>(i % 3)), "\tNOUN\n",
                   i % 5 == 0 ? "sleeping\tVERB\n" : "runs\tVERB\n", i % 4 == 0 ? "in\tADP\nred\tNOUN\n" : "",
                   ".\tPUNCT\n\n");
  }
  return text;
}

// Questions by a colour about the thing of that colour, in JSON lines. Every fourth has no answer.
inline std::string coloured_questions(int count) {
  constexpr std::array kThings{"man", "dog", "house"};
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string red = kThings.at(static_cast<size_t>(i % 3)),
                      blue = kThings.at(static_cast<size_t>((i + 1 + i / 3 % 2) % 3));
    const bool none = i % 4 == 3, red_first = i / 2 % 2 == 0, asks_red = i / 3 % 2 == 0;
    const std::string of_red = concat(i % 5 == 0 ? "a" : "the", " red ", red),
                      of_blue = concat("the blue ", blue);
    std::string context =
        red_first ? concat(of_red, " and ", of_blue, " .") : concat(of_blue, " and ", of_red, " .");
    if (none) context = concat(i % 8 == 3 ? "a " : "the ", asks_red ? "blue " : "red ", red, " runs .");
    const std::string answer = asks_red ? red : blue;
    const size_t begin = context.find(concat(asks_red ? "red " : "blue ", answer));
    const std::string spans =
        none ? R"("text": [], "answer_start": [])"
             : concat(R"("text": [")", answer, R"("], "answer_start": [)", begin + (asks_red ? 4 : 5), "]");
    text += concat(R"({"question": ")", asks_red ? "red" : "blue", R"(", "context": ")", context,
                   R"(", "answers": {)", spans, "}}\n");
  }
  return text;
}

// A run with random weights that uses everything with a state; the limit and the files are missing.
inline void set_small(train::EncoderJob& job) {
  for (const auto& [field, value] : {std::pair("model.layers", "2"),
                                     {"model.d_model", "32"},
                                     {"model.heads", "2"},
                                     {"model.d_ff", "64"},
                                     {"model.max_positions", "20"},
                                     {"train.batch_tokens", "120"},
                                     {"schedule.warmup_steps", "10"},
                                     {"schedule.learning_rate", "0.005"},
                                     {"train.log_every", "3"},
                                     {"train.seed", "7"}}) {
    if (!job.set_field(field, value)) throw UsageError(concat("no setting ", field));
  }
  job.encoder.tokenizer = golden_model("bert_base");
}

}  // namespace qkv::testing
