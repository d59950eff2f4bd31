// For compare_templates.py: renders templates.
//
// dump_template < JOBS > RESULTS
// A job is a line of JSON: {"template": "...", "context": {...}}. Its result is a line: {"text": "..."}, or
// {"error": "..."} of a qkv::Error. The time is that of 2024-07-26 10:05:09.

#include <iostream>
#include <string>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/jinja/template.h"

int main() {
  using namespace qkv;
  std::tm time{};
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 10;
  time.tm_min = 5;
  time.tm_sec = 9;
  time.tm_wday = 5;
  time.tm_yday = 207;
  std::string line;
  while (std::getline(std::cin, line)) {
    try {
      const JsonValue job = parse_json(line, "job");
      const jinja::Template parsed(job["template"].string(), "template");
      const std::string text =
          parsed.render(jinja::Value::of_json(job["context"]).dict(), {}, [&] { return time; });
      std::cout << "{\"text\": " << quoted_json(text) << "}\n";
    } catch (const Error& error) {
      std::cout << "{\"error\": " << quoted_json(error.what()) << "}\n";
    }
  }
}
