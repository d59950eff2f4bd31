#pragma once
// A temporary folder for a test, removed at its end.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::testing {

class Scratch {
 public:
  Scratch() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    static int count = 0;
    const std::string name = std::string("qkv-") + test->test_suite_name() + "-" + test->name() + "-" +
                             std::to_string(::getpid()) + "-" + std::to_string(++count);
    path_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(std::string_view name, std::string_view content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// Expects each of these parts in a text.
inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in: " << text;
  }
}

// The message of the error thrown by `action`, which must have the given type.
template <class Expected, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type of error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

// Expects `part` in a text.
inline void expect_contains(std::string_view text, std::string_view part,
                            std::source_location at = std::source_location::current()) {
  if (text.find(part) == std::string_view::npos) {
    ADD_FAILURE_AT(at.file_name(), static_cast<int>(at.line()))
        << "expected a text with: " << part << "\nfound: " << text;
  }
}

// Expects `action` to throw an error of this type whose message contains `part`.
template <class Expected, class Action>
void expect_throw(std::string_view part, Action action,
                  std::source_location at = std::source_location::current()) {
  expect_contains(message_of<Expected>(action), part, at);
}

}  // namespace qkv::testing
