#include "tests/readers/mutate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <string_view>

namespace qkv::testing {
namespace {

// Replacements for sizes, counts and ids.
constexpr std::array<std::string_view, 18> kNumbers{"0",
                                                    "-1",
                                                    "1",
                                                    "2",
                                                    "255",
                                                    "1000",
                                                    "65536",
                                                    "268435456",
                                                    "2147483647",
                                                    "2147483648",
                                                    "4294967295",
                                                    "4294967316",
                                                    "1e400",
                                                    "1e-400",
                                                    "0.5",
                                                    "-0.0",
                                                    "9223372036854775807",
                                                    "1e30"};
constexpr std::array<std::string_view, 12> kValues{"null",    "true",   "[]",           "{}",
                                                   "\"\"",    "[[[]]]", "\"a\"",        "{\"a\":1}",
                                                   "\\ud800", "\xFF",   "\xE2\x96\x81", "\"\\u0000\""};

size_t any(size_t bound, RandomStream& random) { return random.below(std::max<size_t>(bound, 1)); }

// Short spans are more likely than long ones.
size_t length(size_t most, RandomStream& random) {
  return any(std::min(most, size_t{1} << any(12, random)) + 1, random);
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

void change_number(std::string& bytes, RandomStream& random) {
  size_t begin = any(bytes.size(), random);
  while (begin < bytes.size() && !is_digit(bytes[begin])) ++begin;
  while (begin > 0 && is_digit(bytes[begin - 1])) --begin;
  size_t end = begin;
  while (end < bytes.size() && is_digit(bytes[end])) ++end;
  if (end > begin) bytes.replace(begin, end - begin, kNumbers[any(kNumbers.size(), random)]);
}

// Changes the text between two colons, brackets or commas.
void change_value(std::string& bytes, RandomStream& random) {
  const size_t begin = bytes.find_first_of(":[,", any(bytes.size(), random));
  if (begin == bytes.npos) return;
  const size_t end = std::min(bytes.find_first_of(",]}", begin + 1), bytes.size());
  bytes.replace(begin + 1, end - begin - 1, kValues[any(kValues.size(), random)]);
}

// Every other integer is small: valid, but not what the rest of the file has.
void write_integer(std::string& bytes, RandomStream& random) {
  constexpr std::array<uint64_t, 8> kExtremes{0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, ~0ull >> 1, ~0ull};
  const size_t width = size_t{1} << any(4, random), at = any(bytes.size(), random);
  const uint64_t value = random.below(2) == 0 ? any(40, random) : kExtremes[any(kExtremes.size(), random)];
  for (size_t i = 0; i < width && at + i < bytes.size(); ++i)
    bytes[at + i] = static_cast<char>(value >> (8 * i));
}

void change_once(std::string& bytes, std::span<const std::string> seeds, RandomStream& random) {
  const size_t at = any(bytes.size(), random), count = length(bytes.size() - at, random);
  const std::string& other = seeds[any(seeds.size(), random)];
  const size_t from = any(other.size(), random);
  switch (random.below(14)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << any(8, random));
      break;
    case 1:
      bytes[at] = static_cast<char>(random.next());
      break;
    case 2:
    case 3:
    case 4:
      write_integer(bytes, random);
      break;
    case 5:
    case 6: {  // in place: the counts and offsets of binary files stay true
      const size_t both = std::min(count, other.size() - from);
      bytes.replace(at, both, other, from, both);
      break;
    }
    case 7:
      bytes.insert(at, other.substr(from, length(other.size() - from, random)));
      break;
    case 8:
      bytes.erase(at, count);
      break;
    case 9:
      bytes.insert(any(bytes.size(), random), bytes.substr(at, count));
      break;
    case 10:
      bytes.resize(at);
      break;
    case 11:
      change_value(bytes, random);
      break;
    default:
      change_number(bytes, random);
  }
}

}  // namespace

std::string mutated(const std::string& seed, std::span<const std::string> seeds, RandomStream& random) {
  std::string bytes = seed;
  for (size_t left = 1 + any(4, random); left > 0 && !bytes.empty(); --left)
    change_once(bytes, seeds, random);
  return bytes;
}

}  // namespace qkv::testing
