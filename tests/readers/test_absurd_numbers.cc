// Replaces each number of a valid JSON file by others, most of them absurd: excessive sizes must be rejected
// before memory is allocated.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fuzz/input.h"
#include "fuzz/readers.h"
#include "qkv/base/files.h"
#include "qkv/io/gguf.h"
#include "tests/readers/take.h"

namespace {

using namespace qkv;
using nlohmann::ordered_json;

constexpr std::array<int64_t, 9> kNumbers{-1, 0, 1, 4097, 65536, 1 << 28, 2147483647, 1ll << 32, 1ll << 62};
// A few numbers of a vocabulary suffice, as all are alike.
constexpr size_t kMaxNumbers = 40;

std::vector<ordered_json::json_pointer> numbers_of(const ordered_json& document) {
  std::vector<ordered_json::json_pointer> all, some;
  const ordered_json flat = document.flatten();
  for (const auto& [path, value] : flat.items()) {
    if (value.is_number()) all.emplace_back(path);
  }
  const size_t step = 1 + all.size() / kMaxNumbers;
  for (size_t i = 0; i < all.size(); i += step) some.push_back(all[i]);
  return some;
}

class AbsurdNumbers : public ::testing::TestWithParam<const fuzz::Reader*> {};

TEST_P(AbsurdNumbers, AreRefusedBeforeMemoryIsAskedFor) {
  const fuzz::Reader& reader = *GetParam();
  int64_t changed = 0, taken = 0;
  for (const std::string& seed : reader.seeds()) {
    // A model folder's file follows two lines of names.
    const size_t begin = std::min(seed.find('{'), seed.size());
    ordered_json document = ordered_json::parse(seed.substr(begin), nullptr, /*allow_exceptions=*/false);
    if (!document.is_object()) continue;
    for (const auto& path : numbers_of(document)) {
      const ordered_json before = document[path];
      for (const int64_t number : kNumbers) {
        document[path] = number;
        ++changed;
        taken += qkv::testing::takes(reader, seed.substr(0, begin) + document.dump());
        ASSERT_FALSE(HasFailure()) << reader.name << ": " << path.to_string() << " = " << number;
      }
      document[path] = before;
    }
  }
  EXPECT_GT(changed, 0);
  EXPECT_LT(taken, changed);
  std::cout << reader.name << ": " << taken << " of " << changed << " changed numbers were taken\n";
}

constexpr std::array kJsonReaders{&fuzz::audio_config, &fuzz::generation_config,   &fuzz::model_config,
                                  &fuzz::model_folder, &fuzz::preprocessor_config, &fuzz::tokenizer_json};

INSTANTIATE_TEST_SUITE_P(All, AbsurdNumbers, ::testing::ValuesIn(kJsonReaders),
                         [](const ::testing::TestParamInfo<const fuzz::Reader*>& parameter) {
                           return std::string(parameter.param->name);
                         });

// Counts, lengths of texts, extents and offsets of a GGUF file are 8 bytes each, kinds and most values 4: one
// after the other is absurd, and then small, but not what the rest of the file has.
void replace_numbers_of(const std::string& file) {
  const io::GgufFile read("a seed", file);
  size_t header = file.size();
  for (const std::string& name : read.names()) header -= read.entry(name).bytes.size();
  int64_t taken = 0, changed = 0;
  const auto replace = [&](size_t at, auto number) {
    std::string other = file;
    std::memcpy(other.data() + at, &number, sizeof number);
    ++changed;
    taken += qkv::testing::takes(fuzz::gguf, other);
    EXPECT_FALSE(::testing::Test::HasFailure()) << "byte " << at << " = " << number;
  };
  for (size_t at = 4; at + 8 <= header && !::testing::Test::HasFailure(); ++at) {
    const std::array<int64_t, 3> absurd{1ll << 62, -1, 1ll << 33};
    replace(at, absurd[at % absurd.size()]);
    if (at % 4 != 0) continue;
    replace(at, int32_t{2147483647});
    replace(at, static_cast<int32_t>(at / 4 % 13));
  }
  EXPECT_GT(changed, 1000);
  EXPECT_LT(taken, changed);
}

TEST(AbsurdGguf, NumbersOfTheHeaderAreRefusedBeforeMemoryIsAskedFor) {
  replace_numbers_of(read_file(fuzz::golden("models/golden_gguf/chat.gguf")));
}

TEST(AbsurdGguf, NightlyNumbersOfEachArchitectureAreRefusedBeforeMemoryIsAskedFor) {
  for (const std::string& seed : fuzz::gguf.seeds()) {
    if (seed.find("GGUF", 1) != seed.npos) continue;  // in two parts
    replace_numbers_of(seed);
    if (HasFailure()) return;
  }
}

}  // namespace
