#pragma once
// Messages of the SentencePiece library.

#include <string>
#include <string_view>

namespace qkv::text {

// Without the place in its source and the condition that precede a message: "./src/trainer.cc(60)
// [condition] message".
inline std::string plain_sentencepiece_message(std::string_view message) {
  const size_t place = message.find(".cc(");
  const size_t end = place == message.npos ? place : message.find("] ", place);
  if (end != message.npos) message.remove_prefix(end + 2);
  return std::string(message);
}

}  // namespace qkv::text
