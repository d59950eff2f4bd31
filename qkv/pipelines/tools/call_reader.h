#pragma once
// Reads the calls of tools in an answer, as it arrives.

#include <string>
#include <string_view>
#include <vector>

#include "qkv/pipelines/tools/call_format.h"

namespace qkv::pipelines {

// Whether a tool's name may have the byte.
bool is_of_a_name(char byte);

class CallReader {
 public:
  // `names`: of the tools; what looks like a call of another one is text.
  CallReader(CallFormat format, std::vector<std::string> names)
      : format_(std::move(format)), names_(std::move(names)) {}

  // Takes more of the answer. Returns what is certainly text; appends to `calls` those that are complete,
  // without ids. Spaces and line ends before a call are no text.
  std::string add(std::string_view text, std::vector<ToolCall>& calls);
  // The rest of the text. A call that is incomplete is text, but for one after complete ones, which is lost.
  std::string finish();

 private:
  enum class Part { text, begin, first, middle, second, rest, after };

  // Reads on. False: more of the answer is needed.
  bool read_text(std::string& text);
  bool read_literal(const std::string& expected, Part next);
  bool read_slot(bool is_name, Part next);
  bool read_name(Part next);
  bool read_arguments(Part next);
  bool read_rest(std::vector<ToolCall>& calls);
  // What looked like a call is text.
  bool leave();

  CallFormat format_;
  std::vector<std::string> names_;
  Part part_ = Part::text;
  std::string held_;    // since the last text or complete call
  size_t at_ = 0;       // of these, the bytes that have been read
  std::string blanks_;  // before the first call, until it is complete
  bool any_ = false;    // text or a trigger so far
  bool has_calls_ = false;
  ToolCall call_;
  // Within ARGUMENTS: bytes read, nesting depth.
  size_t length_ = 0;
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace qkv::pipelines
