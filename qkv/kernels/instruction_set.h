#pragma once
// The vector instructions that the processor's kernels run on.

#include <vector>

namespace qkv::kernels {

// On x86-64 each includes those before it: avx512_vnni adds products of 8-bit integers to avx512, amx tiles
// of them. neon is Arm's.
enum class InstructionSet { scalar, sse4, avx2, avx512, avx512_vnni, amx, neon };

// As QKV_ISA takes it: "scalar", "sse4", "avx2", "avx512", "avx512_vnni", "amx", "neon".
const char* name_of(InstructionSet set);

// Those that this build has code for and this machine runs, the best one last.
const std::vector<InstructionSet>& instruction_sets();

// The one in use: the best, or the one that the environment variable QKV_ISA names. The variable is read
// once, before the first kernel runs, and limits the whole process: qkv's kernels, Highway and oneDNN (which
// has nothing below SSE4.1). Throws UsageError where it names none of instruction_sets(), or oneDNN cannot be
// limited any more because the program has used it before.
InstructionSet instruction_set();

}  // namespace qkv::kernels
