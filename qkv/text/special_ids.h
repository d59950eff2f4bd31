#pragma once
// The ids that begin and end a decoder's output.

#include <cstdint>
#include <optional>

namespace qkv::text {

struct SpecialIds {
  static constexpr int32_t kNone = -1;

  // The start token, which is not part of the output. None: the output continues the last source token, as in
  // decoder-only models, whose sources are prompts.
  std::optional<int32_t> start = 0;
  int32_t eos = 0;         // ends an output; kNone (prompts only): outputs end at their limit
  bool source_eos = true;  // it also ends a source of an encoder-decoder
};

}  // namespace qkv::text
