#pragma once
// The functions of MPI that ranks need, as a table of C functions, so that the program neither links MPI nor
// depends on the binary interface of one implementation: libqkv_mpi.so (apps/mpi/plugin.cc) is compiled
// against one, and loaded only in a process that a launcher has started as one of several.

#include <cstddef>

namespace qkv {

inline constexpr int kMpiPluginVersion = 1;
// Messages are sent in parts of this size, which MPI should send without asking the receiver first: an answer
// would wait behind what the receiver sends.
inline constexpr size_t kMpiPartBytes = size_t{1} << 20;
inline constexpr const char* kMpiPluginSymbol = "qkv_mpi_plugin";

struct MpiPlugin {
  int version;
  // Functions that return a text return null on success, otherwise what failed.
  // One thread at a time may call the functions.
  const char* (*start)();
  int (*rank)();
  int (*size)();
  const char* (*host)(int rank);
  // Starts a message of a channel, 0 or 1, of less than 2^31 bytes. Those of a channel keep their order.
  const char* (*send)(int to, int channel, const void* bytes, size_t count, void** request);
  const char* (*receive)(int from, int channel, void* bytes, size_t count, void** request);
  // Sets *done, after which the request no longer exists.
  const char* (*test)(void* request, int* done);
  // Receives the empty messages of channel 1 that have arrived; calls `from` for each.
  const char* (*take_signals)(void (*from)(int rank, void* argument), void* argument);
  void (*abort)(int exit_status);
  void (*finish)();
};

}  // namespace qkv
