#pragma once
// The answer to one HTTP request, written by any thread.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "qkv/serve/http/message.h"

namespace qkv::serve {

// Exactly one of send() and begin() is called once; later calls are ignored, so that whoever is first answers
// (a result or a deadline). All functions may be called from any thread, return at once, and never throw
// because the client has left. A Reply that is destroyed unanswered answers 500; one destroyed in the middle
// of a stream closes the connection.
class Reply {
 public:
  virtual ~Reply() = default;
  Reply() = default;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  // A whole response. Returns false if there was an answer already or the client has left.
  virtual bool send(HttpResponse response) = 0;

  // Begins a stream of unknown length (chunked transfer coding; HTTP/1.0: until the connection closes).
  // response.body is its beginning and may be empty.
  virtual bool begin(HttpResponse response) = 0;
  // Appends to the stream. Returns false if the client has left, or reads so slowly that more than
  // HttpOptions::stream_buffer_bytes wait for it; the connection is then closed.
  virtual bool write(std::string data) = 0;
  // Ends the stream. failed: the status that an error after its beginning would have had, for logs; the
  // client has seen that of begin().
  virtual void end(std::optional<int> failed = {}) = 0;

  // True once the client has left.
  virtual bool closed() const = 0;
  // Calls `callback` once if the client leaves before the answer is complete; at once if it has left. It runs
  // on a network thread and must return quickly. Replaces an earlier callback; it is dropped, uncalled, when
  // the answer is complete.
  virtual void on_closed(std::function<void()> callback) = 0;
  // Calls `callback` once at that time, on a network thread, unless the answer is complete or the client has
  // left by then. It must return quickly. Replaces an earlier callback.
  virtual void at(std::chrono::steady_clock::time_point time, std::function<void()> callback) = 0;
};

using ReplyHandle = std::shared_ptr<Reply>;

}  // namespace qkv::serve
