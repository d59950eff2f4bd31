#include "qkv/kernels/instruction_set.h"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/kernels/cpu/products/int8_sums.h"
#include "qkv/kernels/cpu/products/onednn.h"
#include "qkv/kernels/libraries.h"

namespace qkv::kernels {
namespace {

constexpr std::array kNames = {"scalar", "sse4", "avx2", "avx512", "avx512_vnni", "amx", "neon"};

// Highway's target for each set; VNNI and AMX are our own code in addition to AVX-512.
int64_t target_of(InstructionSet set) {
  switch (set) {
#if HWY_ARCH_X86
    case InstructionSet::sse4:
      return HWY_SSE4;
    case InstructionSet::avx2:
      return HWY_AVX2;
    case InstructionSet::avx512:
    case InstructionSet::avx512_vnni:
    case InstructionSet::amx:
      return HWY_AVX3;
#elif HWY_ARCH_ARM
    case InstructionSet::neon:
      return HWY_NEON;
#endif
    case InstructionSet::scalar:
      return HWY_TARGETS & (HWY_EMU128 | HWY_SCALAR);
    default:
      return 0;
  }
}

bool available(InstructionSet set, int64_t targets) {
  if ((target_of(set) & targets) == 0) return false;
  if (set == InstructionSet::avx512_vnni) return machine_has_vnni();
  if (set == InstructionSet::amx) return machine_has_amx();
  return true;
}

std::string names_of(const std::vector<InstructionSet>& sets) {
  std::string names;
  for (const InstructionSet set : sets) names += (names.empty() ? "" : ", ") + std::string(name_of(set));
  return names;
}

InstructionSet choose() {
  const std::vector<InstructionSet>& sets = instruction_sets();
  const char* const wanted = std::getenv("QKV_ISA");
  if (wanted == nullptr) return sets.back();
  const auto found = std::ranges::find_if(
      sets, [&](InstructionSet set) { return std::string_view(wanted) == name_of(set); });
  if (found == sets.end()) {
    const bool known = std::ranges::find(kNames, std::string_view(wanted)) != kNames.end();
    throw UsageError(concat("QKV_ISA: expected an instruction set that this build and machine have (",
                            names_of(sets), "), found ", known ? "" : "the unknown name ", "'", wanted, "'"));
  }
  if (*found == InstructionSet::amx && !request_amx())
    throw UsageError(
        "QKV_ISA: expected amx to be available, found that the operating system refuses its registers");
  onednn::limit(*found);
  hwy::DisableTargets(target_of(*found) - 1);  // better targets have lower bits
  return *found;
}

}  // namespace

std::string highway_version() { return concat(HWY_MAJOR, ".", HWY_MINOR, ".", HWY_PATCH); }

const char* name_of(InstructionSet set) { return kNames[static_cast<size_t>(set)]; }

const std::vector<InstructionSet>& instruction_sets() {
  static const std::vector<InstructionSet> sets = [] {
    const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
    std::vector<InstructionSet> all;
    for (size_t i = 0; i < kNames.size(); ++i) {
      const auto set = static_cast<InstructionSet>(i);
      if (available(set, targets)) all.push_back(set);
    }
    return all;
  }();
  return sets;
}

InstructionSet instruction_set() {
  static const InstructionSet chosen = choose();
  return chosen;
}

bool use_vnni() {
  static const bool answer =
      instruction_set() == InstructionSet::avx512_vnni || instruction_set() == InstructionSet::amx;
  return answer;
}

bool use_amx() {
  static const bool answer = instruction_set() == InstructionSet::amx && request_amx();
  return answer;
}

}  // namespace qkv::kernels
