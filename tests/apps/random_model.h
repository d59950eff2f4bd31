#pragma once
// Small models of number words: a folder with random weights, and a short training.

#include <filesystem>
#include <string>
#include <vector>

#include "apps/number_words.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/text/train_sentencepiece.h"
#include "qkv/train/tasks/translation/translation_task.h"

namespace qkv::testing {

inline data::CorpusFiles write_numbers(const std::filesystem::path& folder, int largest) {
  const data::CorpusFiles files{.source = folder / "numbers.en", .target = folder / "numbers.de"};
  const apps::NumberSplit split = apps::split_numbers({.largest = largest, .held_out = 0});
  apps::write_number_corpus(split.train, files.source, files.target);
  return files;
}

// A training run of a few seconds, validated on its own corpus; the limit is missing.
inline std::vector<std::string> small_training(const data::CorpusFiles& corpus, const std::string& out) {
  const std::string source = corpus.source.string(), target = corpus.target.string();
  return {"train",          "translation",   "--src",        source,
          "--tgt",          target,          "--valid-src",  source,
          "--valid-tgt",    target,          "--out",        out,
          "--preset",       "tiny",          "--set",        "model.d_model=32",
          "--set",          "model.d_ff=64", "--vocab-size", "60",
          "--batch-tokens", "600",           "--quiet"};
}

inline text::TranslationTokenizer number_tokenizer(const data::CorpusFiles& files, int64_t size = 60) {
  return text::TranslationTokenizer::from_models(
      {.source = text::train_sentencepiece(
           {.inputs = {files.source, files.target}, .vocab_size = size, .character_coverage = 1}),
       .target = {},
       .source_lang = "en",
       .target_lang = "de"});
}

// `corpus` receives the tokenizer's training text.
inline models::TransformerConfig write_random_model(const std::filesystem::path& folder,
                                                    const std::filesystem::path& corpus) {
  const text::TranslationTokenizer tokenizer = number_tokenizer(write_numbers(corpus, 999));
  models::TransformerConfig config = models::preset("tiny");
  config.d_model = 32;
  config.d_ff = 48;
  config.max_positions = 64;
  config = train::complete_config(config, tokenizer);
  models::Transformer model(config);
  nn::initialise(model, 7);
  std::filesystem::create_directories(folder);
  tokenizer.save(folder);
  models::save_transformer(folder, model, {.beam = 2, .length_penalty = 0.6f, .max_new_tokens = 30});
  return config;
}

}  // namespace qkv::testing
