#pragma once
// The demo's corpus: English number words and their German translation. Units and tens are swapped
// ("forty-one", "einundvierzig") and German writes a single word, so that attention visibly crosses.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace qkv::apps {

inline constexpr int kLargestNumber = 999'999;

// 241 -> "two hundred forty-one". Throws UsageError outside 0..kLargestNumber.
std::string english_number(int number);

// 241 -> "zweihunderteinundvierzig". Throws UsageError outside 0..kLargestNumber.
std::string german_number(int number);

struct NumberSplitOptions {
  int largest = 9'999;  // the numbers are 0..largest
  int held_out = 500;   // numbers held out for the test
  int validation = 0;   // further numbers held out for validation
  // Smaller numbers are never held out: some words, such as "zero", occur in no other.
  int always_train = 100;
  uint64_t seed = 1;
};

struct NumberSplit {
  std::vector<int> train, validation, held_out;  // disjoint, together all numbers, each in random order
};

// Throws UsageError unless the range is valid and leaves numbers to train on.
NumberSplit split_numbers(const NumberSplitOptions& options);

// The smallest number that the demo trains: "zero" has nothing in common with the others, and one example is
// not enough.
inline constexpr int kSmallest = 1;

// The demo's training lines: each number once, but those below kRareBelow, which are few and have words of
// their own ("ten", "zwölf"), kCopiesOfRare times.
inline constexpr int kRareBelow = 100, kCopiesOfRare = 20;
std::vector<int> demo_lines(const std::vector<int>& train);

struct NumberTexts {
  std::vector<std::string> english, german;
};
NumberTexts texts_of(std::span<const int> numbers);

// Writes a parallel corpus of the numbers' words, one number per line. Throws IoError.
void write_number_corpus(std::span<const int> numbers, const std::filesystem::path& english,
                         const std::filesystem::path& german);

}  // namespace qkv::apps
