#include "qkv/data/token_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "qkv/base/error.h"
#include "qkv/base/hash.h"
#include "qkv/base/log.h"
#include "qkv/base/parallel.h"
#include "qkv/base/stop.h"
#include "qkv/text/lines.h"
#include "tests/data/numbers.h"

namespace qkv::data {
namespace {

using ::qkv::testing::contains;
using ::qkv::testing::message_of;
using ::qkv::testing::Numbers;

TEST(TokenStore, HoldsTheCorpusAsTheTokenizerGivesIt) {
  const Numbers numbers(4999);  // more than one chunk
  const auto tokenizer = numbers.tokenizer();
  const TokenStore store = TokenStore::build(numbers.files, tokenizer, numbers.folder / "tokens");
  ASSERT_EQ(store.pairs(), 5'000);
  text::LineReader english(numbers.files.source), german(numbers.files.target);
  std::string line;
  int64_t source_tokens = 0, target_tokens = 0;
  for (int64_t i = 0; i < store.pairs(); ++i) {
    EXPECT_EQ(store.line(i), i + 1);
    ASSERT_TRUE(english.next(line));
    ASSERT_TRUE(std::ranges::equal(store.source(i), tokenizer.encode_source(line))) << line;
    ASSERT_EQ(store.source_length(i), static_cast<int64_t>(store.source(i).size()));
    source_tokens += store.source_length(i);
    ASSERT_TRUE(german.next(line));
    ASSERT_TRUE(std::ranges::equal(store.target(i), tokenizer.encode_target(line))) << line;
    ASSERT_EQ(store.target_length(i), static_cast<int64_t>(store.target(i).size()));
    target_tokens += store.target_length(i);
  }
  EXPECT_EQ(store.report(),
            (CorpusReport{.pairs = 5'000, .source_tokens = source_tokens, .target_tokens = target_tokens}));
}

TEST(TokenStore, SameBytesForAnyNumberOfThreads) {
  const Numbers numbers;
  const auto tokenizer = numbers.tokenizer();
  const int before = threads();
  std::vector<std::string> files;
  for (const int count : {1, 3}) {
    set_threads(count);
    TokenStore::build(numbers.files, tokenizer, numbers.folder / "tokens");
    files.push_back(read_file(numbers.folder / "tokens"));
  }
  set_threads(before);
  EXPECT_GT(files[0].size(), 1200u * 24);
  EXPECT_EQ(files[0], files[1]);
  // The folder has only the corpus and the store.
  const auto entries = std::filesystem::directory_iterator(numbers.folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 3);
}

TEST(TokenStore, KeepsLineNumbersAndReportAcrossSkips) {
  const Numbers numbers(20);
  numbers.folder.write("numbers.en", "two hundred\n\ntwenty-one thousand seventeen\nsix\n");
  numbers.folder.write("numbers.de", "zweihundert\nx\neinundzwanzigtausendsiebzehn\nsechs\n");
  const Numbers vocabulary(1199);
  const auto tokenizer = vocabulary.tokenizer();
  const auto longest = static_cast<int64_t>(tokenizer.encode_target("zweihundert").size());
  TokenStore::build(numbers.files, tokenizer, numbers.folder / "tokens", {.max_length = longest + 2});
  const TokenStore store = TokenStore::open(numbers.folder / "tokens");
  ASSERT_EQ(store.pairs(), 2);
  EXPECT_EQ(store.line(0), 1);
  EXPECT_EQ(store.line(1), 4);
  EXPECT_EQ(store.report().skipped_empty, 1);
  EXPECT_EQ(store.report().skipped_long, 1);
  EXPECT_EQ(tokenizer.decode(store.target(1)), "sechs");
}

TEST(TokenStore, IsMadeAnewOnlyWhenSomethingChanged) {
  const Numbers numbers;
  const auto path = numbers.folder / "tokens";
  const auto tokenizer = numbers.tokenizer();
  const auto opened = [&](const text::TranslationTokenizer& with, const CorpusOptions& options) {
    return TokenStore::open_or_build(numbers.files, with, path, options).fingerprint();
  };
  const auto touched = [&] { return std::filesystem::last_write_time(path).time_since_epoch().count(); };
  const uint64_t first = opened(tokenizer, {});
  EXPECT_EQ(first, TokenStore::fingerprint_of(numbers.files, tokenizer, {}));
  std::filesystem::last_write_time(path, std::filesystem::file_time_type(std::chrono::hours(1)));
  const auto old = touched();
  EXPECT_EQ(opened(tokenizer, {}), first);
  EXPECT_EQ(touched(), old) << "built again although nothing changed";

  std::vector<uint64_t> fingerprints = {first, opened(tokenizer, {.max_length = 100}),
                                        opened(tokenizer, {.empty = OnBadLine::fail}),
                                        opened(numbers.tokenizer(65), {})};
  EXPECT_NE(touched(), old);
  std::string text = read_file(numbers.files.source);
  text[text.size() / 2] ^= 1;  // flips one bit; the size is unchanged
  numbers.folder.write("numbers.en", text);
  fingerprints.push_back(opened(tokenizer, {}));
  std::ranges::sort(fingerprints);
  EXPECT_EQ(std::ranges::adjacent_find(fingerprints), fingerprints.end());
}

TEST(TokenStore, DamageIsSeenAndRepaired) {
  const Numbers numbers(99);
  const auto path = numbers.folder / "tokens";
  const auto tokenizer = numbers.tokenizer(50);
  TokenStore::build(numbers.files, tokenizer, path);
  const std::string good = read_file(path);
  const auto refused = [&](const std::string& content) {
    numbers.folder.write("tokens", content);
    const std::string message = message_of<DataError>([&] { TokenStore::open(path); });
    EXPECT_TRUE(contains(message, path.string())) << message;
  };
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{87}, size_t{88}, good.size() / 2, good.size() - 1}) {
    refused(good.substr(0, cut));
  }
  // Every byte of the footer, and some of the rest.
  for (size_t at = 3; at < good.size(); at += at < good.size() - 88 ? 101 : 1) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    refused(flipped);
  }
  refused(good.substr(8));               // a token pair is missing
  refused(std::string(8, '\0') + good);  // one too many
  std::string claims = good;
  claims[good.size() - 88 + 7] = '\x7F';  // 2^63 tokens
  refused(claims);

  // An index that points outside the tokens, with the checksum that such a file should have.
  constexpr size_t kFooter = 88, kHash = 64, kEntry = 24;
  const size_t last_entry = good.size() - kFooter - kEntry;
  for (const size_t field : {size_t{0}, size_t{8}, size_t{12}}) {  // the first token, and both lengths
    std::string outside = good;
    outside[last_entry + field + 3] = '\x40';
    uint64_t value = 0;  // the hash is of the file with zeros in its place
    char* const place = outside.data() + outside.size() - kFooter + kHash;
    std::memcpy(place, &value, sizeof value);
    Hash64 hash;
    hash.add(outside);
    value = hash.value();
    std::memcpy(place, &value, sizeof value);
    numbers.folder.write("tokens", outside);
    EXPECT_TRUE(
        contains(message_of<DataError>([&] { TokenStore::open(path); }), "expected pairs within its"));
  }

  std::string warning;
  set_log_sink([&](LogLevel, const std::string& message) { warning = message; });
  EXPECT_EQ(TokenStore::open_or_build(numbers.files, tokenizer, path).pairs(), 100);
  set_log_sink({});
  EXPECT_TRUE(contains(warning, "rebuilding")) << warning;
  EXPECT_EQ(read_file(path), good);
}

TEST(TokenStore, AStopLeavesTheFolderAsItWas) {
  const Numbers numbers(99);
  const auto tokenizer = numbers.tokenizer(50);
  std::filesystem::create_directories(numbers.folder / "out");
  const std::atomic<bool> stop = true;
  EXPECT_THROW(TokenStore::open_or_build(numbers.files, tokenizer, numbers.folder / "out/tokens", {}, &stop),
               Stopped);
  EXPECT_TRUE(std::filesystem::is_empty(numbers.folder / "out"));
}

TEST(TokenStore, NothingToLearnFromAndUnwritableFoldersAreErrors) {
  const Numbers numbers(99);
  const auto tokenizer = numbers.tokenizer(50);
  const auto path = numbers.folder / "tokens";
  EXPECT_TRUE(contains(message_of<IoError>([&] {
                         TokenStore::build(numbers.files, tokenizer, numbers.folder / "none" / "tokens");
                       }),
                       "none"));
  const std::string all_long =
      message_of<DataError>([&] { TokenStore::build(numbers.files, tokenizer, path, {.max_length = 1}); });
  EXPECT_TRUE(contains(all_long, "at least one usable pair")) << all_long;
  EXPECT_FALSE(std::filesystem::exists(path));
  numbers.folder.write("numbers.en", "");
  numbers.folder.write("numbers.de", "");
  EXPECT_THROW(TokenStore::build(numbers.files, tokenizer, path), DataError);
  EXPECT_THROW(TokenStore::open(numbers.folder / "nothing"), IoError);
}

}  // namespace
}  // namespace qkv::data
