#pragma once

#include <cstdint>
#include <string_view>

#include "qkv/grammar/machine.h"

namespace qkv::grammar {

// Whether a text is one of the grammar's.
inline bool accepts(Machine& machine, std::string_view text) {
  Machine::State state = machine.start();
  for (const char byte : text) {
    state = machine.next(state, static_cast<uint8_t>(byte));
    if (state == Machine::kDead) return false;
  }
  return machine.may_end(state);
}

}  // namespace qkv::grammar
