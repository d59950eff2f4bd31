"""Writes qkv/metrics/lowercase_table.h from Python's own Unicode tables (str.lower). Run from the repository root."""

import sys
import unicodedata

if sys.version_info[:2] != (3, 11):
    print(f"note: Unicode {unicodedata.unidata_version}; the committed table is Unicode 14 (Python 3.11)", file=sys.stderr)

# Runs of code points at equal distances (1 or 2) that move by the same amount.
ranges = []  # [first, last, stride, delta]
for code in range(0x110000):
    lower = chr(code).lower()
    if len(lower) != 1 or ord(lower) == code:
        continue
    delta = ord(lower) - code
    if ranges:
        first, last, stride, previous = ranges[-1]
        step = code - last
        if previous == delta and step in (1, 2) and (first == last or step == stride):
            ranges[-1] = [first, code, step, delta]
            continue
    ranges.append([code, code, 1, delta])

with open("qkv/metrics/lowercase_table.h", "w", encoding="ascii") as out:
    out.write("#pragma once\n"
              "// Simple lower-case mappings of Unicode 14, written by tests/golden/metrics_lowercase.py.\n\n"
              "#include <cstdint>\n\n"
              "namespace qkv::metrics {\n\n"
              "// first, first + stride, ..., last become lower case by adding delta. Ranges are sorted and disjoint.\n"
              "struct CaseRange {\n  char32_t first, last;\n  uint32_t stride;\n  int32_t delta;\n};\n\n"
              "// clang-format off\n"
              "inline constexpr CaseRange kLowercase[] = {\n")
    line = "   "
    for first, last, stride, delta in ranges:
        item = f" {{0x{first:X}, 0x{last:X}, {stride}, {delta}}},"
        if len(line) + len(item) > 110:
            out.write(line + "\n")
            line = "   "
        line += item
    out.write(line + "\n};\n// clang-format on\n\n}  // namespace qkv::metrics\n")
