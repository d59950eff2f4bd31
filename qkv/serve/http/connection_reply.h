#pragma once
// The answer to a request of a connection, given from any thread.

#include <memory>

#include "qkv/serve/http/connection.h"

namespace qkv::serve {

// Passes answers on to the connection, on its thread, as long as it lives. One that is destroyed without an
// answer answers 500; one without the end of a begun answer closes the connection.
ReplyHandle reply_through(HttpCoreHandle core, std::weak_ptr<Connection> connection,
                          std::shared_ptr<ReplyState> state);

}  // namespace qkv::serve
