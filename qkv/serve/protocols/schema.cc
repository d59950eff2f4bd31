#include "qkv/serve/protocols/schema.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace qkv::serve {
namespace {

class SchemaParser {
 public:
  explicit SchemaParser(std::string_view text) : rest_(text), all_(text) {}

  ResponseJson whole() {
    ResponseJson schema = either();
    if (!rest_.empty()) fail();
    return schema;
  }

 private:
  [[noreturn]] void fail() const { throw std::logic_error(concat("schema: '", all_, "' at '", rest_, "'")); }

  // Whether the rest begins with this, which is then skipped, with the spaces after it.
  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
    return true;
  }
  void require(std::string_view token) {
    if (!take(token)) fail();
  }
  template <class Belongs>
  std::string_view word(const Belongs& belongs) {
    const auto end = std::ranges::find_if_not(rest_, belongs);
    const std::string_view found = rest_.substr(0, static_cast<size_t>(end - rest_.begin()));
    if (found.empty()) fail();
    take(found);
    return found;
  }
  std::string_view name() {
    return word([](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
  }
  std::string_view until(char end) {
    const std::string_view found = rest_.substr(0, rest_.find(end));
    take(found);
    require(std::string_view(&end, 1));
    return found;
  }

  ResponseJson either() {
    std::vector<ResponseJson> all{one()};
    while (take("|")) all.push_back(one());
    const auto is_null = [](const ResponseJson& schema) { return schema == ResponseJson{{"type", "null"}}; };
    const bool or_null = std::erase_if(all, is_null) > 0;
    ResponseJson result;
    if (all.size() == 1) {
      result = std::move(all.front());
    } else if (std::ranges::all_of(all,
                                   [](const ResponseJson& schema) { return schema.contains("const"); })) {
      for (const ResponseJson& schema : all) result["enum"].push_back(schema["const"]);
    } else {
      result["anyOf"] = all;
    }
    return or_null ? nullable(std::move(result)) : result;
  }

  ResponseJson one() {
    ResponseJson schema = plain();
    if (take("(")) {
      const std::string least(until('.')), most = (require("."), std::string(until(')')));
      const std::string type = schema["type"];
      const char* const suffix = type == "string" ? "Length" : type == "array" ? "Items" : "imum";
      if (!least.empty()) schema[concat("min", suffix)] = std::stoll(least);
      if (!most.empty()) schema[concat("max", suffix)] = std::stoll(most);
    }
    if (take("'")) schema["description"] = std::string(until('\''));
    return schema;
  }

  ResponseJson plain() {
    if (take("[")) {
      ResponseJson items = either();
      require("]");
      return {{"type", "array"}, {"items", std::move(items)}};
    }
    if (take("{")) return object();
    if (take("\"")) return {{"const", std::string(until('"'))}};
    const std::string found(name());
    if (found == "true" || found == "false") return {{"const", found == "true"}};
    if (found == "any") return ResponseJson::object();
    if (std::isupper(static_cast<unsigned char>(found[0])) != 0)
      return {{"$ref", "#/components/schemas/" + found}};
    return {{"type", found}};
  }

  ResponseJson object() {
    ResponseJson schema{{"type", "object"}}, required = ResponseJson::array();
    if (take("*")) {
      require(":");
      schema["additionalProperties"] = either();
      require("}");
      return schema;
    }
    if (take("}")) return {{"type", "object"}, {"maxProperties", 0}};
    do {
      const std::string key(name());
      if (!take("?")) required.push_back(key);
      require(":");
      schema["properties"][key] = either();
    } while (take(","));
    require("}");
    if (!required.empty()) schema["required"] = std::move(required);
    return schema;
  }

  std::string_view rest_, all_;
};

}  // namespace

ResponseJson schema_of(std::string_view notation) { return SchemaParser(notation).whole(); }

ResponseJson nullable(ResponseJson schema) {
  if (schema.contains("const")) return {{"enum", {schema["const"], nullptr}}};
  if (schema.contains("enum")) schema["enum"].push_back(nullptr);
  if (schema.contains("anyOf")) schema["anyOf"].push_back({{"type", "null"}});
  if (schema.contains("$ref")) return {{"anyOf", {std::move(schema), {{"type", "null"}}}}};
  if (schema.contains("type")) schema["type"] = {schema["type"], "null"};
  return schema;
}

}  // namespace qkv::serve
