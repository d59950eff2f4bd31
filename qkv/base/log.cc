#include "qkv/base/log.h"

#include <utility>

namespace qkv {
namespace {

LogSink& sink() {
  static LogSink instance;
  return instance;
}

void log(LogLevel level, const std::string& message) {
  if (sink()) sink()(level, message);
}

}  // namespace

void set_log_sink(LogSink new_sink) { sink() = std::move(new_sink); }
void log_info(const std::string& message) { log(LogLevel::info, message); }
void log_warning(const std::string& message) { log(LogLevel::warning, message); }

}  // namespace qkv
