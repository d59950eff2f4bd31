// Answers with calls, in pieces of any size.

#include "qkv/pipelines/tools/call_reader.h"

#include <gtest/gtest.h>

namespace qkv::pipelines {
namespace {

const CallFormat kTagged{.begin = "<call>{\"name\": \"",
                         .middle = "\", \"arguments\": ",
                         .between = "}</call><call>{\"name\": \"",
                         .end = "}</call>",
                         .trigger = "<call>"};
const CallFormat kWhole{.begin = "{\"name\": \"",
                        .middle = "\", \"parameters\": ",
                        .end = "}",
                        .trigger = "{\"name\": \"",
                        .whole_answer = true};
const CallFormat kNameLast{.begin = "<call>{\"arguments\": ",
                           .middle = ", \"name\": \"",
                           .between = "\"}</call>\n<call>{\"arguments\": ",
                           .end = "\"}</call>",
                           .arguments_first = true,
                           .trigger = "<call>"};

struct ReaderCase {
  const CallFormat& format;
  std::string answer, text, calls;  // calls: NAME ARGUMENTS; ...
};

const std::vector<ReaderCase> kReaderCases{
    {kTagged, "No call < at <cal all ", "No call < at <cal all ", ""},
    {kTagged, R"(<call>{"name": "f", "arguments": {"a": [1, {"b": "}\"]{"}]}}</call>)", "",
     R"(f {"a": [1, {"b": "}\"]{"}]};)"},
    {kTagged,
     "Let me see. \n"
     R"(<call>{"name": "f", "arguments": {}}</call>)",
     "Let me see.", "f {};"},
    {kTagged,
     R"(<call>{"name": "f.1", "arguments": {}}</call><call>{"name": "g-2", "arguments": {"x": "\\"}}</call>)",
     "", R"(f.1 {};g-2 {"x": "\\"};)"},
    {kTagged, "So: \n<call>", "So: \n<call>", ""},
    {kTagged, "So: <call>{\"name\": 1", "So: <call>{\"name\": 1", ""},
    {kTagged, R"(<call>{"name": "f", "arguments": {"a": 1)", R"(<call>{"name": "f", "arguments": {"a": 1)",
     ""},
    {kTagged, R"(<call>{"name": "f", "arguments": {}}</call><call>{"na)", "", "f {};"},
    {kTagged, R"(<call>{"name": "f", "arguments": {}}</ca)", "", "f {};"},
    {kTagged, R"(<call>{"name": "f", "arguments": {}}</call><call>{"name": "g", "argu)", "", "f {};"},
    {kTagged, R"(<call>{"name": 3} and <call>)", R"(<call>{"name": 3} and <call>)", ""},
    {kTagged, R"(<call>{"name": "h", "arguments": {}}</call>)",
     R"(<call>{"name": "h", "arguments": {}}</call>)", ""},
    {kTagged, R"(<call>{"name": "f", "arguments": 3}</call>)",
     R"(<call>{"name": "f", "arguments": 3}</call>)", ""},
    {kWhole, R"({"name": "f", "parameters": {"q": "{"}})", "", R"(f {"q": "{"};)"},
    {kWhole,
     "\n"
     R"( {"name": "f", "parameters": {}})",
     "", "f {};"},
    {kWhole, R"(So: {"name": "f", "parameters": {}})", R"(So: {"name": "f", "parameters": {}})", ""},
    {kWhole, R"({"nam": 1})", R"({"nam": 1})", ""},
    {kWhole, "  ", "  ", ""},
    {kNameLast,
     R"(<call>{"arguments": {"a": 1}, "name": "f"}</call>)"
     "\n"
     R"(<call>{"arguments": {}, "name": "g"}</call>)",
     "", R"(f {"a": 1};g {};)"}};

TEST(CallReader, ReadsPiecesOfAnySize) {
  for (const auto& [format, answer, text, expected] : kReaderCases) {
    SCOPED_TRACE(answer);
    for (size_t size = 1; size <= answer.size(); ++size) {
      CallReader reader(format, {"f", "g", "f.1", "g-2"});
      std::vector<ToolCall> calls;
      std::string shown;
      for (size_t at = 0; at < answer.size(); at += size) shown += reader.add(answer.substr(at, size), calls);
      shown += reader.finish();
      EXPECT_EQ(shown, text) << "pieces of " << size;
      std::string read;
      for (const ToolCall& call : calls) read += call.name + " " + call.arguments + ";";
      EXPECT_EQ(read, expected) << "pieces of " << size;
    }
  }
}

TEST(CallReader, ShowsTextAtOnceAndCallsWhenTheyEnd) {
  CallReader reader(kTagged, {"f"});
  std::vector<ToolCall> calls;
  EXPECT_EQ(reader.add("Let me", calls), "Let me");
  EXPECT_EQ(reader.add(" see\n<c", calls), " see");
  EXPECT_EQ(reader.add(R"(all>{"name": "f", "arguments": {"a": 1)", calls), "");
  EXPECT_TRUE(calls.empty());
  EXPECT_EQ(reader.add("}", calls), "");
  ASSERT_EQ(calls.size(), 1U) << "before the end of the answer";
  EXPECT_EQ(calls[0].arguments, R"({"a": 1})");
}

}  // namespace
}  // namespace qkv::pipelines
