// Reads a shortlist and applies it to sources with ids inside and outside its vocabulary.

#include "qkv/search/shortlist.h"

#include "fuzz/input.h"
#include "fuzz/reader.h"

namespace qkv::fuzz {
namespace {

const std::filesystem::path& path() {
  static const std::filesystem::path file = scratch_folder("shortlist") / "shortlist.safetensors";
  return file;
}

void read(std::string_view bytes) {
  write(path(), bytes);
  const search::Shortlist shortlist = search::Shortlist::load(path());
  const auto last = static_cast<int32_t>(shortlist.source_vocabulary() - 1);
  for (const std::vector<int32_t>& source : {std::vector{0}, {last, 0, last}, {last + 1, -1, 3}})
    shortlist.allowed(source, std::vector{0, 1000});
}

std::vector<std::string> seeds() {
  const std::vector<search::TokenPair> pairs{{{1, 2, 3}, {4, 5}}, {{2, 6}, {5, 7, 7}}, {{0}, {1}}};
  search::Shortlist::learn(pairs, 8, 9, {.per_token = 3, .frequent = 2}).save(path());
  return {joined_files(path().parent_path(), {"shortlist.safetensors"})};
}

}  // namespace

const Reader shortlist{"shortlist", read, seeds};

}  // namespace qkv::fuzz
