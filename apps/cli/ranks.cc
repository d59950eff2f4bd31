#include "apps/cli/ranks.h"

#include <chrono>
#include <memory>
#include <thread>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "qkv/base/log.h"
#include "qkv/base/mpi.h"

namespace qkv::apps {

void with_ranks(double timeout, const std::function<void(Communicator&)>& body) {
  if (!(timeout >= 1))
    throw UsageError(concat("--rank-timeout: expected 1 or more seconds, found ", timeout));
  if (launched_processes() == 1) return body(alone());
  const std::unique_ptr<Communicator> ranks =
      open_mpi_ranks({.timeout = timeout, .on_lost = [](const std::string& message) { say(message); }});
  if (!ranks->is_root()) set_log_sink({});  // the root logs the same
  const auto fail = [&](const std::string& message, int status) {
    say(ranks->is_root() ? message : concat(ranks->name(ranks->rank()), ": ", message));
    ranks->fail(status);
    throw ExitStatus{status};
  };
  try {
    body(*ranks);
  } catch (const RankError& error) {
    // The rank that failed prints why, and ends all processes, this one too.
    if (!ranks->is_root()) std::this_thread::sleep_for(std::chrono::duration<double>(timeout));
    fail(error.what(), 1);
  } catch (const UsageError& error) {
    fail(error.what(), 2);
  } catch (const std::exception& error) {
    fail(error.what(), 1);
  }
}

}  // namespace qkv::apps
