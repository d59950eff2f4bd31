// Reads both files of a parallel corpus, separated by a zero byte.

#include "qkv/data/corpus.h"

#include <algorithm>

#include "fuzz/input.h"
#include "fuzz/reader.h"

namespace qkv::fuzz {
namespace {

void read(std::string_view bytes) {
  static const std::filesystem::path folder = scratch_folder("corpus");
  const std::string_view source = bytes.substr(0, bytes.find('\0'));
  write(folder / "source", source);
  write(folder / "target", bytes.substr(std::min(source.size() + 1, bytes.size())));
  // Invalid UTF-8 is alternately skipped and rejected.
  data::ParallelReader reader(
      {folder / "source", folder / "target"},
      {.max_length = 8, .bad_utf8 = bytes.size() % 2 == 0 ? data::OnBadLine::skip : data::OnBadLine::fail});
  data::LinePair pair;
  while (reader.next(pair)) reader.keep(pair, std::ssize(pair.source), std::ssize(pair.target));
  reader.report().summary();
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  return {"a house\nthe  house \r\n\n\xE2\x96\x81 e\xCC\x81\n\0ein Haus\ndas Haus\r\n \n\xFF\n"s, "a\0b"s};
}

}  // namespace

const Reader corpus{"corpus", read, seeds};

}  // namespace qkv::fuzz
