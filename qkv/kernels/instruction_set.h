#pragma once
// The instruction set of the CPU kernels.

#include <vector>

namespace qkv::kernels {

// On x86-64 each set includes the preceding ones: avx512_vnni adds products of 8-bit integers to avx512, amx
// adds tiles of them. neon: Arm.
enum class InstructionSet { scalar, sse4, avx2, avx512, avx512_vnni, amx, neon };

// The value of QKV_ISA: "scalar", "sse4", "avx2", "avx512", "avx512_vnni", "amx", "neon".
const char* name_of(InstructionSet set);

// The sets that both this build and this machine support, the best one last.
const std::vector<InstructionSet>& instruction_sets();

// The set in use: the best one, or the value of the environment variable QKV_ISA. The variable is read once,
// before the first kernel runs, and limits the whole process: qkv's kernels, Highway and oneDNN (whose
// minimum is SSE4.1). Throws UsageError unless it names one of instruction_sets(), and if the program has
// used oneDNN before, which then cannot be limited.
InstructionSet instruction_set();

}  // namespace qkv::kernels
