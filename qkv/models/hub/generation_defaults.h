#pragma once
// Recommended decoding options of a folder: generation_config.json.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/option_field.h"
#include "qkv/models/config.h"

namespace qkv::models {

// When to stop a beam search that has `beam` finished hypotheses.
enum class EarlyStopping : uint8_t {
  // When the best unfinished hypothesis, scored at its current length, is no better than the worst finished
  // one: early_stopping=False in transformers. With a penalty that favours length, this may stop slightly too
  // early.
  heuristic,
  // When no unfinished hypothesis can become better: early_stopping="never" in transformers.
  exact,
  // Immediately: early_stopping=True in transformers.
  when_full,
};

// Sampling options. Each applies to the tokens that the previous one kept.
struct Sampling {
  double temperature = 1;
  int top_k = 0;
  double top_p = 1;  // Holtzman et al. 2020
  double min_p = 0;
  uint64_t seed = 1;

  template <class Self, class Visit>
  static void visit_fields(Self&& self, const Visit& visit) {
    visit({"temperature", "FACTOR", "Divisor of the logits, above 0", above(0)}, self.temperature);
    visit({"top_k", "K", "Sample from the K most likely tokens, and ties with the last; 0: from all",
           at_least(0)},
          self.top_k);
    visit({"top_p", "P", "Sample from the most likely tokens with this total probability, above 0 to 1",
           above(0, 1)},
          self.top_p);
    visit({"min_p", "P", "Sample from tokens with at least this fraction of the highest probability, 0 to 1",
           between(0, 1)},
          self.min_p);
    visit({"seed", "N", "Random seed, 0 or more; with the place of a text, it determines its samples",
           at_least(0), kSeed},
          self.seed);
  }
  static constexpr std::string_view kSeed = "seed";  // not of the distribution
};

struct SequenceBias {
  std::vector<int32_t> ids;
  float bias = 0;  // added to the score of the last id after the others
};

// Rules that only generation_config.json sets. Each does what transformers' logits processor of this name
// does.
struct TokenRules {
  std::vector<SequenceBias> sequence_bias = {};
  float encoder_repetition_penalty = 1;    // above 1: tokens of the source (of the prompt) become more likely
  int encoder_no_repeat_ngram = 0;         // forbids n-grams of the source (of the prompt); 0: off
  std::optional<int32_t> forced_bos = {};  // the token after a start token or a prompt of one token
  std::vector<int32_t> begin_suppress_tokens = {};  // ids that are never chosen first
  // exponential_decay_length_penalty: from decay_start + n new tokens on, n >= 1, adds
  // |score| (decay_factor^n - 1) to the score of an end token.
  int decay_start = 0;
  double decay_factor = 1;
};

// The defaults are those of models trained by qkv. Numbers of tokens count new tokens without the end token;
// reading and writing files converts them.
struct GenerationDefaults {
  int beam = 4;
  double length_penalty = 0.6;
  EarlyStopping early_stopping = EarlyStopping::heuristic;
  int max_new_tokens = 510;
  int min_new_tokens = 0;
  int no_repeat_ngram = 0;
  float repetition_penalty = 1;
  Sampling sampling = {};                            // but the seed
  bool renormalize = false;                          // renormalise the probabilities of allowed tokens
  std::vector<std::vector<int32_t>> bad_words = {};  // token sequences that must not occur
  std::vector<int32_t> suppress_tokens = {};         // ids that are never chosen
  TokenRules rules = {};
  std::vector<int32_t> eos_ids = {};         // end tokens; empty: those of config.json
  std::vector<int32_t> forced_eos_ids = {};  // one of them ends an output that reaches its limit; empty: none
  int max_length = 0, min_length = 0;        // language models: limits that include the prompt; 0: none
  // The first field that qkv does not support, as a message: in every search, and in sampling alone. Empty:
  // none.
  std::string unsupported = {}, unsupported_sampling = {};
  std::string file = "generation_config.json";  // that they were read from, for messages
};

// Whether limits in a file include a start token (encoder-decoders) or a prompt (language models).
enum class LengthsInclude : uint8_t { start, prompt };

// Reads generation_config.json; if it is missing, the same fields of config.json, as in old folders. Missing
// fields have transformers' defaults: greedy search without penalties. Without a length, outputs end after
// 510 tokens (language models: 128). max_length in a file includes the start token; max_length and
// max_new_tokens include the end token, if the file has forced_eos_token_id. max_new_tokens takes precedence.
// Throws DataError naming the file and the field, also for a field of generation_config.json that is unknown,
// and where do_sample is true for a sampling that is out of range. others: fields, separated by spaces, that
// something else reads.
GenerationDefaults load_generation_defaults(const std::filesystem::path& folder,
                                            LengthsInclude lengths = LengthsInclude::start,
                                            std::string_view others = {});

// The content of generation_config.json. Padding is always listed as a bad word.
std::string generation_json(const TransformerConfig& config, const GenerationDefaults& defaults);

}  // namespace qkv::models
