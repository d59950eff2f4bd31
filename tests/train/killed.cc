#include "tests/train/killed.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "qkv/base/files.h"

namespace qkv::testing {

void run_killed(const train::Job& job, int64_t step) {
  std::string settings = concat(job.task_name(), '\n', job.folder.string(), '\n');
  for (const train::Field& field : job.fields()) settings += concat(field.name, '=', field.value, '\n');
  const std::string file = job.folder.string() + ".settings";
  write_file_atomically(file, settings);
  const int status = std::system(concat("exec '", QKV_KILLED_RUN, "' '", file, "' ", step).c_str());
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "step " << step << ": " << status;
}

}  // namespace qkv::testing
