#include "apps/number_words.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/philox.h"
#include "qkv/data/shuffle.h"

namespace qkv::apps {
namespace {

constexpr std::array<std::string_view, 20> kEnglishUnits = {
    "zero",     "one",     "two",     "three",     "four",     "five",    "six",
    "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::array<std::string_view, 10> kEnglishTens = {"",      "",      "twenty",  "thirty", "forty",
                                                           "fifty", "sixty", "seventy", "eighty", "ninety"};

// "ein" is used before und, hundert and tausend; at the end of a number it is "eins".
constexpr std::array<std::string_view, 20> kGermanUnits = {
    "null",     "ein",      "zwei",     "drei",     "vier",     "fünf",    "sechs",
    "sieben",   "acht",     "neun",     "zehn",     "elf",      "zwölf",   "dreizehn",
    "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"};
constexpr std::array<std::string_view, 10> kGermanTens = {
    "", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"};

void check_range(int number) {
  if (number < 0 || number > kLargestNumber) {
    throw UsageError(concat("number to write in words: expected 0 to ", kLargestNumber, ", found ", number));
  }
}

void append_word(std::string& text, std::string_view word) {
  if (!text.empty()) text += ' ';
  text += word;
}

// 1..999
void append_english(std::string& text, int number) {
  if (number >= 100) {
    append_word(text, kEnglishUnits[static_cast<size_t>(number / 100)]);
    append_word(text, "hundred");
    number %= 100;
  }
  if (number >= 20) {
    append_word(text, kEnglishTens[static_cast<size_t>(number / 10)]);
    if (number % 10 > 0) text += concat("-", kEnglishUnits[static_cast<size_t>(number % 10)]);
  } else if (number > 0) {
    append_word(text, kEnglishUnits[static_cast<size_t>(number)]);
  }
}

// 1..999, in the form before "tausend".
std::string german_below_thousand(int number) {
  std::string text;
  if (number >= 100) {
    text = concat(kGermanUnits[static_cast<size_t>(number / 100)], "hundert");
    number %= 100;
  }
  if (number >= 20) {
    if (number % 10 > 0) text += concat(kGermanUnits[static_cast<size_t>(number % 10)], "und");
    text += kGermanTens[static_cast<size_t>(number / 10)];
  } else if (number > 0) {
    text += kGermanUnits[static_cast<size_t>(number)];
  }
  return text;
}

}  // namespace

std::string english_number(int number) {
  check_range(number);
  if (number == 0) return std::string(kEnglishUnits[0]);
  std::string text;
  if (number >= 1000) {
    append_english(text, number / 1000);
    append_word(text, "thousand");
  }
  append_english(text, number % 1000);
  return text;
}

std::string german_number(int number) {
  check_range(number);
  if (number == 0) return std::string(kGermanUnits[0]);
  std::string text;
  if (number >= 1000) text = german_below_thousand(number / 1000) + "tausend";
  text += german_below_thousand(number % 1000);
  if (number % 100 == 1) text += 's';
  return text;
}

NumberSplit split_numbers(const NumberSplitOptions& options) {
  check_range(options.largest);
  const int count = options.largest + 1;
  const int free = count - std::clamp(options.always_train, 0, count);
  const int most = std::min(free, count - 1);
  if (options.held_out < 0 || options.validation < 0 || options.held_out > most ||
      options.validation > most - options.held_out) {
    throw UsageError(concat("numbers held out and for validation: expected 0 to ", most, " of the ", count,
                            " numbers (", count - free, " of them are always trained on), found ",
                            options.held_out, " and ", options.validation));
  }
  std::vector<int> numbers(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = i;
  RandomStream random(options.seed, data::kNumberStream);
  data::shuffle(numbers, random);
  NumberSplit split;
  for (const int number : numbers) {
    const bool free_to_keep = number >= options.always_train;
    if (free_to_keep && std::ssize(split.held_out) < options.held_out) {
      split.held_out.push_back(number);
    } else if (free_to_keep && std::ssize(split.validation) < options.validation) {
      split.validation.push_back(number);
    } else {
      split.train.push_back(number);
    }
  }
  return split;
}

std::vector<int> demo_lines(const std::vector<int>& train) {
  std::vector<int> lines;
  for (const int number : train) {
    if (number >= kSmallest) lines.insert(lines.end(), number < kRareBelow ? kCopiesOfRare : 1, number);
  }
  return lines;
}

NumberTexts texts_of(std::span<const int> numbers) {
  NumberTexts texts;
  for (const int number : numbers) {
    texts.english.push_back(english_number(number));
    texts.german.push_back(german_number(number));
  }
  return texts;
}

void write_number_corpus(std::span<const int> numbers, const std::filesystem::path& english,
                         const std::filesystem::path& german) {
  const NumberTexts texts = texts_of(numbers);
  const auto write = [](const std::filesystem::path& path, const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    write_file_atomically(path, text);
  };
  write(english, texts.english);
  write(german, texts.german);
}

}  // namespace qkv::apps
