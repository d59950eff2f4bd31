// For transformers_marian.py: the ids and logits of sentence pairs.
//
// dump_logits DIR OUT.safetensors < pairs, one "source <tab> target" per line. Writes, for all pairs
// concatenated: source_ids, target_ids (with </s>), source_lengths, target_lengths, and logits [target
// tokens, vocabulary] of each target token given the source and the preceding target tokens.

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/translation_model.h"
#include "qkv/search/score.h"

namespace {

using qkv::Ragged;
using qkv::Shape;
using qkv::Tensor;

struct Dump {
  std::vector<int32_t> source_ids, target_ids, source_lengths, target_lengths;
  std::vector<float> logits;
};

Ragged one_sequence(const std::vector<int32_t>& ids) {
  const auto count = static_cast<int64_t>(ids.size());
  return {Tensor::from(ids, Shape{count}), qkv::Offsets::uniform(1, count)};
}

void append(std::vector<int32_t>& all, std::vector<int32_t>& lengths, const std::vector<int32_t>& ids) {
  all.insert(all.end(), ids.begin(), ids.end());
  lengths.push_back(static_cast<int32_t>(ids.size()));
}

void add_pair(const qkv::models::TranslationModel& model, const std::string& line, Dump& dump) {
  const size_t tab = line.find('\t');
  if (tab == std::string::npos) {
    throw qkv::DataError(qkv::concat("expected source <tab> target, found \"", line, "\""));
  }
  std::vector<int32_t> source = model.tokenizer->encode_source(line.substr(0, tab));
  if (model.config.source_eos) source.push_back(model.tokenizer->eos_id(qkv::text::Side::source));
  std::vector<int32_t> target = model.tokenizer->encode_target(line.substr(tab + 1));
  target.push_back(model.tokenizer->eos_id());

  qkv::nn::ForwardContext context;
  const qkv::nn::Memory memory = model.transformer->encode(one_sequence(source), context);
  const std::vector<int32_t> input = qkv::search::decoder_input(*model.transformer, target);
  const qkv::Variable hidden = model.transformer->decode(one_sequence(input), memory, context);
  const Tensor logits = linear(hidden, model.transformer->output_projection()).value();

  append(dump.source_ids, dump.source_lengths, source);
  append(dump.target_ids, dump.target_lengths, target);
  dump.logits.insert(dump.logits.end(), logits.values().begin(), logits.values().end());
}

template <class T>
Tensor vector_tensor(const std::vector<T>& values) {
  return Tensor::from(values, Shape{static_cast<int64_t>(values.size())});
}

void run(const char* folder, const char* out) {
  const qkv::models::TranslationModel model = qkv::models::load_translation_model(folder);
  Dump dump;
  for (std::string line; std::getline(std::cin, line);) add_pair(model, line, dump);
  const auto rows = static_cast<int64_t>(dump.target_ids.size());
  qkv::io::write_safetensors(out,
                             {{"source_ids", vector_tensor(dump.source_ids)},
                              {"source_lengths", vector_tensor(dump.source_lengths)},
                              {"target_ids", vector_tensor(dump.target_ids)},
                              {"target_lengths", vector_tensor(dump.target_lengths)},
                              {"logits", Tensor::from(dump.logits, Shape{rows, model.tokenizer->size()})}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: dump_logits DIR OUT.safetensors < pairs\n";
    return 2;
  }
  try {
    run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "dump_logits: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
