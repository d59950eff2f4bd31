#pragma once
// A small corpus with a tokenizer.

#include <filesystem>

#include "apps/number_words.h"
#include "qkv/data/corpus.h"
#include "qkv/text/train_sentencepiece.h"
#include "qkv/text/translation_tokenizer.h"
#include "tests/support/scratch.h"

namespace qkv::testing {

struct Numbers {
  explicit Numbers(int largest = 1199) {
    const auto split = apps::split_numbers({.largest = largest, .held_out = 0});
    apps::write_number_corpus(split.train, files.source, files.target);
  }

  Scratch folder;
  data::CorpusFiles files{folder / "numbers.en", folder / "numbers.de"};

  text::TranslationTokenizer tokenizer(int64_t size = 60) const {
    return text::TranslationTokenizer::from_models(
        {.source = text::train_sentencepiece(
             {.inputs = {files.source, files.target}, .vocab_size = size, .character_coverage = 1}),
         .target = {},
         .source_lang = "en",
         .target_lang = "de"});
  }
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace qkv::testing
