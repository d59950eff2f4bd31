#pragma once
// The format of a report, by file extension.

#include <cstdint>
#include <filesystem>

#include "qkv/base/files.h"

namespace qkv::explain {

enum class ReportKind : uint8_t { html, json, svg };

// By the extension, ignoring case. Throws UsageError unless it is .html, .json or .svg.
ReportKind report_kind(const std::filesystem::path& path);

// Writes to_html(), to_json() or to_svg() of a report, atomically.
template <class Report>
void write_as_named(const Report& report, const std::filesystem::path& path) {
  switch (report_kind(path)) {
    case ReportKind::html:
      return write_file_atomically(path, to_html(report));
    case ReportKind::json:
      return write_file_atomically(path, to_json(report));
    case ReportKind::svg:
      return write_file_atomically(path, to_svg(report));
  }
}

}  // namespace qkv::explain
