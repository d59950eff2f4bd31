#pragma once
// The log sink: the library's only voice. Silent until an application installs a sink.

#include <functional>
#include <string>

namespace qkv {

enum class LogLevel { info, warning };

using LogSink = std::function<void(LogLevel, const std::string& message)>;

// Replaces the sink; an empty function silences the log. Not to be called while other threads log.
void set_log_sink(LogSink sink);

void log_info(const std::string& message);
void log_warning(const std::string& message);

}  // namespace qkv
