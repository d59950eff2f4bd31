#pragma once
// Requests to the hub, repeated after transient failures; refusals become messages that say what to do.

#include <functional>
#include <string>

#include "qkv/hub/http.h"
#include "qkv/hub/listing.h"

namespace qkv::hub {

struct HubContext {
  HubSettings settings;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const std::string&)> say;  // news for the user; may be empty
};

// Counts failures without progress in between.
class Patience {
 public:
  explicit Patience(const HubContext& context) : context_(context) {}

  void progress() { failures_ = 0; }
  // Waits before another attempt. Throws the failure if it is lasting, if the attempts are used up, or if
  // the server asks for more than 5 minutes.
  void after(const Failure& failure);

 private:
  const HubContext& context_;
  int failures_ = 0;
};

// Waits, and throws Stopped on request.
void pause_for(std::chrono::milliseconds time, const std::atomic<bool>* stop);

class HubClient {
 public:
  // `id` is a model's name; `revision` a branch, tag or commit. The context must live as long.
  HubClient(const HubContext& context, std::string id, std::string revision);

  // The commit of the revision.
  std::string commit();
  // The files of a commit, the smallest first. Throws DataError for a name that occurs twice.
  std::vector<HubFile> files(const std::string& commit);
  // One attempt to get a file of a commit, from this byte on: its answer, and its content to the receiver.
  void get_file(const std::string& commit, const HubFile& file, int64_t from, const Receiver& receiver);

 private:
  Answer get_text(const Url& url, std::string& text);
  [[noreturn]] void refuse(const Answer& answer, const std::string& what, bool is_listed = false) const;

  const HubContext& context_;
  std::string id_, revision_;
  HttpClient http_;
};

}  // namespace qkv::hub
