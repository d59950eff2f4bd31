#include "qkv/pipelines/tools/call_reader.h"

#include <algorithm>
#include <utility>

#include "qkv/base/partial_end.h"

namespace qkv::pipelines {

bool is_of_a_name(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
         byte == '_' || byte == '.' || byte == '-';
}

bool CallReader::read_text(std::string& text) {
  const std::string& trigger = format_.trigger;
  size_t found = held_.find(trigger);
  if (format_.whole_answer) {
    const size_t start = std::min(held_.find_first_not_of(kBlanks), held_.size());
    const std::string_view rest = std::string_view(held_).substr(start);
    const bool may_be = !any_ && (rest.starts_with(trigger) || trigger.starts_with(rest));
    found = may_be && rest.size() >= trigger.size() ? start : held_.npos;
    if (may_be && found == held_.npos) return false;
  }
  const bool is_call = found != held_.npos;
  size_t end = is_call ? found : held_.size();
  if (!is_call && !format_.whole_answer) end -= partial_end(held_, trigger);
  const size_t last = end == 0 ? held_.npos : held_.find_last_not_of(kBlanks, end - 1);
  const size_t certain = last == held_.npos ? 0 : last + 1;
  text.append(held_, 0, certain);
  any_ = any_ || certain > 0 || is_call;
  if (is_call) blanks_ = held_.substr(certain, found - certain);
  held_.erase(0, is_call ? found : certain);
  if (is_call) part_ = Part::begin;
  return is_call;
}

bool CallReader::leave() {
  held_.insert(0, std::exchange(blanks_, {}));
  part_ = Part::after;
  return true;
}

bool CallReader::read_literal(const std::string& expected, Part next) {
  const std::string_view rest = std::string_view(held_).substr(at_);
  if (!rest.starts_with(expected)) return expected.starts_with(rest) ? false : leave();
  at_ += expected.size();
  part_ = next;
  return true;
}

bool CallReader::read_slot(bool is_name, Part next) {
  return is_name ? read_name(next) : read_arguments(next);
}

bool CallReader::read_name(Part next) {
  size_t end = at_;
  while (end < held_.size() && is_of_a_name(held_[end])) ++end;
  if (end == held_.size()) return false;
  call_.name = held_.substr(at_, end - at_);
  if (std::ranges::find(names_, call_.name) == names_.end()) return leave();
  at_ = end;
  part_ = next;
  return true;
}

bool CallReader::read_arguments(Part next) {
  for (; at_ + length_ < held_.size(); ++length_) {
    const char byte = held_[at_ + length_];
    if (length_ == 0 && byte != '{') return leave();
    if (in_string_) {
      in_string_ = escaped_ || byte != '"';
      escaped_ = !escaped_ && byte == '\\';
      continue;
    }
    in_string_ = byte == '"';
    if (byte == '{' || byte == '[') ++depth_;
    if (byte != '}' && byte != ']') continue;
    if (--depth_ > 0) continue;
    call_.arguments = held_.substr(at_, length_ + 1);
    at_ += length_ + 1;
    length_ = 0;
    part_ = next;
    return true;
  }
  return false;
}

// A name ends before `between` or `end`, so that both are read as one part.
bool CallReader::read_rest(std::vector<ToolCall>& calls) {
  const std::string_view rest = std::string_view(held_).substr(at_);
  if (!call_.name.empty()) {
    calls.push_back(std::exchange(call_, {}));
    has_calls_ = true;
    blanks_.clear();
    held_.erase(0, at_);
    at_ = 0;
    return true;
  }
  const std::string &between = format_.between, &end = format_.end;
  if (!between.empty() && rest.starts_with(between)) {
    at_ += between.size();
    part_ = Part::first;
  } else if (rest.starts_with(end) && (rest.size() >= between.size() || !between.starts_with(rest))) {
    held_.erase(0, at_ + end.size());
    at_ = 0;
    part_ = Part::after;
  } else if (between.starts_with(rest) || end.starts_with(rest)) {
    return false;
  } else {
    return leave();
  }
  return true;
}

std::string CallReader::add(std::string_view text, std::vector<ToolCall>& calls) {
  held_ += text;
  std::string certain;
  const bool name_first = !format_.arguments_first;
  const auto read_on = [&] {
    switch (part_) {
      case Part::text:
        return read_text(certain);
      case Part::begin:
        return read_literal(format_.begin, Part::first);
      case Part::first:
        return read_slot(name_first, Part::middle);
      case Part::middle:
        return read_literal(format_.middle, Part::second);
      case Part::second:
        return read_slot(!name_first, Part::rest);
      case Part::rest:
        return read_rest(calls);
      case Part::after:
        break;
    }
    certain += std::exchange(held_, {});
    return false;
  };
  while (read_on()) {
  }
  return certain;
}

std::string CallReader::finish() {
  const bool is_lost = has_calls_ && part_ != Part::after;
  at_ = 0;
  std::string rest = std::exchange(blanks_, {}) + std::exchange(held_, {});
  return is_lost ? std::string() : rest;
}

}  // namespace qkv::pipelines
