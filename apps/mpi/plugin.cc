// libqkv_mpi.so: qkv/base/mpi_plugin.h by the MPI that it is compiled with. For another one:
//   mpicxx -std=c++20 -shared -fPIC -I. apps/mpi/plugin.cc -o libqkv_mpi.so

#include "qkv/base/mpi_plugin.h"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

std::string failure;
std::vector<std::string> hosts;

const char* result_of(int code) {
  if (code == MPI_SUCCESS) return nullptr;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  failure.assign(text.data(), static_cast<size_t>(length));
  return failure.c_str();
}

int rank() {
  int own = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  return own;
}

int size() {
  int count = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  return count;
}

const char* start() {
  // For Open MPI, unless the user has set them; beside the part, a header of its own.
  const std::string limit = std::to_string(qkv::kMpiPartBytes + 4096);
  for (const char* name : {"eager_limit", "rndv_eager_limit", "max_send_size"})
    ::setenv((std::string("OMPI_MCA_btl_tcp_") + name).c_str(), limit.c_str(), 0);
  int provided = 0;
  if (const char* bad = result_of(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided)))
    return bad;
  if (provided < MPI_THREAD_SERIALIZED) return "this MPI was built without support for threads";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  std::vector<char> all(name.size() * static_cast<size_t>(size()));
  const int bytes = static_cast<int>(name.size());
  if (const char* bad =
          result_of(MPI_Allgather(name.data(), bytes, MPI_CHAR, all.data(), bytes, MPI_CHAR, MPI_COMM_WORLD)))
    return bad;
  for (size_t at = 0; at < all.size(); at += name.size()) hosts.emplace_back(&all[at]);
  return nullptr;
}

const char* host(int of) { return hosts[static_cast<size_t>(of)].c_str(); }

const char* send(int to, int channel, const void* bytes, size_t count, void** request) {
  auto* const made = new MPI_Request;
  *request = static_cast<void*>(made);
  return result_of(MPI_Isend(bytes, static_cast<int>(count), MPI_BYTE, to, channel, MPI_COMM_WORLD, made));
}

const char* receive(int from, int channel, void* bytes, size_t count, void** request) {
  auto* const made = new MPI_Request;
  *request = static_cast<void*>(made);
  return result_of(MPI_Irecv(bytes, static_cast<int>(count), MPI_BYTE, from, channel, MPI_COMM_WORLD, made));
}

const char* test(void* request, int* done) {
  auto* const own = static_cast<MPI_Request*>(request);
  const char* const bad = result_of(MPI_Test(own, done, MPI_STATUS_IGNORE));
  if (*done) delete own;
  return bad;
}

const char* take_signals(void (*from)(int rank, void* argument), void* argument) {
  for (;;) {
    int there = 0;
    MPI_Status status;
    if (const char* bad = result_of(MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &there, &status)))
      return bad;
    if (!there) return nullptr;
    if (const char* bad = result_of(
            MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)))
      return bad;
    from(status.MPI_SOURCE, argument);
  }
}

void abort_all(int exit_status) { MPI_Abort(MPI_COMM_WORLD, exit_status); }
void finish() { MPI_Finalize(); }

}  // namespace

extern "C" const qkv::MpiPlugin* qkv_mpi_plugin() {
  static const qkv::MpiPlugin plugin{.version = qkv::kMpiPluginVersion,
                                     .start = start,
                                     .rank = rank,
                                     .size = size,
                                     .host = host,
                                     .send = send,
                                     .receive = receive,
                                     .test = test,
                                     .take_signals = take_signals,
                                     .abort = abort_all,
                                     .finish = finish};
  return &plugin;
}
