// Reads a text file, plain or gzip, line by line.

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/text/lines.h"

namespace qkv::fuzz {
namespace {

void read(std::string_view bytes) {
  static const std::filesystem::path path = scratch_folder("text_file") / "lines";
  write(path, bytes);
  text::LineReader lines(path);
  for (std::string line; lines.next(line);) lines.require_utf8(line);
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  // "a house\r\nthe  house\n▁\n" and a line of the byte FF, three times.
  return {
      "\x1F\x8B\x08\x00\x00\x00\x00\x00\x02\xFF\x4B\x54\xC8\xC8\x2F\x2D\x4E\xE5\xE5\x2A\xC9\x48\x55\x80\xB0\xB9\x1E\x4D\x6B\xE4\xFA\xCF\x95\x48\x86\x0C\x00\xA7\x51\x53\x7A\x4E\x00\x00\x00"s,
      "\xEF\xBB\xBF"
      "a house\r\nthe  house\n\n\xE2\x96\x81"s};
}

}  // namespace

const Reader text_file{"text_file", read, seeds};

}  // namespace qkv::fuzz
