// Targets, queries and forms.

#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "qkv/serve/http/form.h"
#include "qkv/serve/http/message.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::serve;

TEST(Targets, AreDecoded) {
  const auto target = parse_target("/a%2Fb?x=%C3%A4&y&x=2&=z#rest");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/a/b");
  EXPECT_EQ(target->query.at("x"), "2");
  EXPECT_EQ(target->query.at("y"), "");
  for (const char* const wrong :
       {"", "a", "/..", "/a/../b", "/%2E%2e", "/%", "/%g0", "/%7f", "/\n", "/?a=%0a"})
    EXPECT_FALSE(parse_target(wrong)) << wrong;
  EXPECT_TRUE(parse_target("/a..b/...")) << "dots in a name";
  // The absolute form, as clients of proxies send.
  EXPECT_EQ(parse_target("http://host:80/a?x=1").value().path, "/a");
  EXPECT_EQ(parse_target("http://host:80/a?x=1").value().query.at("x"), "1");
  EXPECT_EQ(parse_target("https://host").value().path, "/");
  EXPECT_EQ(parse_target("http://host?x=1").value().query.at("x"), "1");
  EXPECT_FALSE(parse_target("http://host/../a"));
}

HttpRequest form_of(const std::string& type, const std::string& body) {
  HttpRequest request;
  request.headers["content-type"] = type;
  request.body = body;
  return request;
}

TEST(Forms, AreParsed) {
  const auto fields =
      parse_form(form_of("application/x-www-form-urlencoded; charset=utf-8", "q=a%0Ab+c&n=1"));
  EXPECT_EQ(fields.at("q"), "a\nb c");
  const auto parts = parse_form(
      form_of("Multipart/Form-Data; Boundary=\"a b\"",
              "preamble\r\n--a b\r\ncontent-disposition: form-data; name=x\r\n\r\n1\r\n2\r\n--a b\r\n"
              "Content-Disposition: form-data; name=\"f\"; filename=\"name=y\"\r\n\r\n\r\n--a b--\r\nend"));
  EXPECT_EQ(parts.at("x"), "1\r\n2");
  EXPECT_EQ(parts.at("f"), "");
}

TEST(Forms, ANameWithinQuotesIsNone) {
  const auto parts = parse_form(form_of(
      "multipart/form-data; boundary=X",
      "--X\r\nContent-Disposition: form-data; filename=\"a;name=b.png\"; name=\"image\"\r\n\r\n1\r\n--X--"));
  EXPECT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts.at("image"), "1");
}

TEST(Forms, NameWhatIsWrong) {
  const auto refused = [](const std::string& type, const std::string& body) {
    return qkv::testing::message_of<DataError>([&] { parse_form(form_of(type, body)); });
  };
  const std::string multipart = "multipart/form-data; boundary=X";
  EXPECT_NE(refused("application/json", "{}").find("found 'application/json'"), std::string::npos);
  EXPECT_NE(refused("application/x-www-form-urlencoded", "a=%2").find("hexadecimal"), std::string::npos);
  EXPECT_NE(refused("multipart/form-data", "").find("boundary"), std::string::npos);
  EXPECT_NE(refused(multipart, "").find("no boundary"), std::string::npos);
  EXPECT_NE(refused(multipart, "--X").find("line break"), std::string::npos);
  EXPECT_NE(refused(multipart, "--X\r\na: b").find("blank line"), std::string::npos);
  EXPECT_NE(refused(multipart, "--X\r\na: b\r\n\r\nvalue").find("after the last part"), std::string::npos);
  EXPECT_NE(refused(multipart, "--X\r\na: b\r\n\r\nvalue\r\n--X--").find("name"), std::string::npos);
}

}  // namespace
