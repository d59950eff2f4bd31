#pragma once
// The log sink, through which the library reports warnings. Silent until an application installs one.

#include <functional>
#include <string>

namespace qkv {

enum class LogLevel { info, warning };

using LogSink = std::function<void(LogLevel, const std::string& message)>;

// Replaces the sink; an empty function silences the log. Not thread-safe.
void set_log_sink(LogSink sink);

void log_info(const std::string& message);
void log_warning(const std::string& message);

}  // namespace qkv
