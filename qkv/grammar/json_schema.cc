#include "qkv/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/grammar/integers.h"

namespace qkv::grammar {
namespace {

// Keywords that do not restrict values.
constexpr std::array kAnnotations{
    "title",    "description", "default",       "examples",        "$schema",          "$id",
    "$comment", "$anchor",     "deprecated",    "format",          "readOnly",         "writeOnly",
    "$defs",    "definitions", "discriminator", "contentEncoding", "contentMediaType", "contentSchema"};
constexpr int64_t kAnyNumber = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostRepeats = 10'000;  // the limit of minItems, maxLength, ...
constexpr size_t kMostBytes = 1 << 18, kMostProperties = 1000;
constexpr int kMostNested = 300;  // nesting depth of schemas, references included
constexpr int kMostShared = 64;   // nesting depth of common beginnings of an enum's values
constexpr std::array kBounds{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"};

bool has_type(const JsonValue& value, std::string_view type) {
  return type == "object"    ? value.is_object()
         : type == "array"   ? value.is_array()
         : type == "string"  ? value.is_string()
         : type == "integer" ? value.is_integer()
         : type == "number"  ? value.is_number()
         : type == "boolean" ? value.is_boolean()
                             : type == "null" && value.is_null();
}

class Compiler {
 public:
  Compiler(const JsonValue& document, Grammar& grammar) : document_(document), grammar_(grammar) {
    make_common();
  }
  int32_t compile() { return rule_of(document_); }

 private:
  // The keywords of a schema that have been read.
  class Keywords {
   public:
    explicit Keywords(const JsonValue& schema) : schema_(schema) {}
    std::optional<JsonValue> find(const char* key) {
      std::optional<JsonValue> found = find_even_null(key);
      if (found && found->is_null()) found->fail("a value");
      return found;
    }
    std::optional<JsonValue> find_even_null(std::string_view key) {
      read_.emplace(key);
      std::optional<JsonValue> found;
      schema_.members([&](std::string_view one, const JsonValue& value) {
        if (one == key) found = value;
      });
      return found;
    }
    std::optional<int64_t> count(const char* key) {
      const auto value = find(key);
      if (!value) return {};
      const double number = value->number();
      if (number == std::floor(number) && number >= 0 && number <= kMostRepeats)
        return static_cast<int64_t>(number);
      value->fail(concat("an integer from 0 to ", kMostRepeats));
    }
    // Accepts an unsupported keyword with its neutral value only.
    void neutral(const char* key, std::string_view value) {
      const auto found = find_even_null(key);
      if (found && found->text() != value) found->fail(concat(value, " or none, as it is not supported"));
    }
    void done() const {
      schema_.members([&](std::string_view key, const JsonValue& value) {
        const bool annotation =
            key.starts_with("x-") || std::ranges::find(kAnnotations, key) != kAnnotations.end();
        if (annotation || read_.contains(std::string(key))) return;
        throw DataError(
            concat(value.path(), ": expected a keyword that is supported here, found \"", key, "\""));
      });
    }

   private:
    JsonValue schema_;
    std::set<std::string> read_;
  };

  void make_common() {
    space_ = grammar_.new_rule();
    const int32_t indent = chain(byte_of("  "), 0, 20, {});
    grammar_.add(space_, {});
    grammar_.add(space_, literal(" "));
    grammar_.add(space_, sequence(byte_of("\n\n"), rule(indent)));

    const Symbol cont = byte_of("\x80\xBF"), hex = byte_of("09afAF");
    character_ = grammar_.new_rule({
        {{.bytes = ranges("\x20\x21\x23\x5B\x5D\x7F")}},
        {byte_of("\xC2\xDF"), cont},
        {byte_of("\xE0\xE0"), byte_of("\xA0\xBF"), cont},
        {byte_of("\xE1\xEC\xEE\xEF"), cont, cont},
        {byte_of("\xED\xED"), byte_of("\x80\x9F"), cont},
        {byte_of("\xF0\xF0"), byte_of("\x90\xBF"), cont, cont},
        {byte_of("\xF1\xF3"), cont, cont, cont},
        {byte_of("\xF4\xF4"), byte_of("\x80\x8F"), cont, cont},
        sequence(literal("\\"), byte_of("\"\"\\\\//bbffnnrrtt")),
        sequence(literal("\\u"), byte_of("09acACefEF"), hex, hex, hex),
        sequence(literal("\\u"), byte_of("ddDD"), byte_of("07"), hex, hex),
        sequence(literal("\\u"), byte_of("ddDD"), byte_of("89abAB"), hex, hex, literal("\\u"),
                 byte_of("ddDD"), byte_of("cfCF"), hex, hex),
    });
    string_ = grammar_.new_rule(
        {sequence(literal("\""), rule(chain(rule(character_), 0, kAnyNumber, literal("\""))))});

    const Symbol digit = byte_of("09");
    const int32_t more = chain(digit, 0, 15, {}), digits = chain(digit, 1, 16, {}),
                  sign = grammar_.new_rule({{}, literal("-")});
    const int32_t whole = grammar_.new_rule({literal("0"), sequence(byte_of("19"), rule(more))});
    integer_ = grammar_.new_rule({{rule(sign), rule(whole)}});
    const int32_t fraction = grammar_.new_rule({{}, sequence(literal("."), rule(digits))});
    const int32_t direction = grammar_.new_rule({{}, {byte_of("++--")}});
    const int32_t exponent =
        grammar_.new_rule({{}, sequence(byte_of("eeEE"), rule(direction), rule(chain(digit, 1, 2, {})))});
    number_ = grammar_.new_rule({{rule(integer_), rule(fraction), rule(exponent)}});
    boolean_ = grammar_.new_rule({literal("true"), literal("false")});
    null_ = grammar_.new_rule({literal("null")});
    value_ = grammar_.new_rule();
    object_ = map_of(value_);
    array_ = list_of({}, value_, 0, kAnyNumber);
    for (const int32_t one : {object_, array_, string_, number_, boolean_, null_})
      grammar_.add(value_, {rule(one)});
  }

  // `least` to `most` times the symbols, then `end`.
  int32_t chain(const Symbols& symbols, int64_t least, int64_t most, const Symbols& end) {
    const bool bounded = most != kAnyNumber;
    const int64_t last = bounded ? most : least;
    const int32_t first = grammar_.new_rule();
    for (int64_t i = 1; i <= last; ++i) grammar_.new_rule();
    for (int64_t i = 0; i <= last; ++i) {
      const int32_t own = first + static_cast<int32_t>(i);
      if (i >= least) grammar_.add(own, end);
      if (i < last || !bounded) grammar_.add(own, sequence(symbols, rule(i < last ? own + 1 : own)));
    }
    return first;
  }
  int32_t chain(const Symbol& symbol, int64_t least, int64_t most, const Symbols& end) {
    return chain(Symbols{symbol}, least, most, end);
  }

  Symbols space() const { return {rule(space_)}; }

  // An object of any names, with values of a rule.
  int32_t map_of(int32_t value) {
    const Symbols member = sequence(rule(string_), literal(":"), space(), rule(value));
    const int32_t rest =
        chain(sequence(literal(","), space(), member), 0, kAnyNumber, sequence(space(), literal("}")));
    return grammar_.new_rule(
        {sequence(literal("{"), space(), literal("}")), sequence(literal("{"), space(), member, rule(rest))});
  }

  // An array that begins with values of the rules `first`, then `least` to `most` items in all; item -1: none
  // after the first.
  int32_t list_of(const std::vector<int32_t>& first, int32_t item, int64_t least, int64_t most) {
    const Symbols comma = sequence(literal(","), space()), end = sequence(space(), literal("]"));
    const auto fixed = static_cast<int64_t>(first.size());
    if (item < 0) most = std::min(most, fixed);
    // From the last to the first: an item, and what may follow it.
    int32_t rest;  // after `begun` items
    const int64_t begun = std::max<int64_t>(fixed, 1);
    if (item < 0) {
      rest = grammar_.new_rule();
      if (begun >= least) grammar_.add(rest, end);
    } else {
      const int64_t more = most == kAnyNumber ? most : std::max<int64_t>(most - begun, 0);
      rest = chain(sequence(comma, rule(item)), std::max<int64_t>(least - begun, 0), more, end);
    }
    for (int64_t i = fixed; i-- > 1;) {
      const int32_t own = grammar_.new_rule();
      if (i >= least) grammar_.add(own, end);
      if (i < most) grammar_.add(own, sequence(comma, rule(first[static_cast<size_t>(i)]), rule(rest)));
      rest = own;
    }
    const int32_t all = grammar_.new_rule();
    if (least == 0) grammar_.add(all, sequence(literal("["), space(), literal("]")));
    const int32_t head = first.empty() ? item : first[0];
    if (head >= 0 && most > 0) grammar_.add(all, sequence(literal("["), space(), rule(head), rule(rest)));
    return all;
  }

  struct Property {
    Symbols name;
    int32_t value;
    bool required;
  };

  int32_t object_of(const std::vector<Property>& properties) {
    const Symbols end = sequence(space(), literal("}"));
    const size_t count = properties.size();
    // rest[i]: after a member, with the properties from i on.
    std::vector<int32_t> rest(count + 1), member(count);
    for (int32_t& one : rest) one = grammar_.new_rule();
    for (size_t i = 0; i < count; ++i) {
      const auto& [name, value, required] = properties[i];
      member[i] = grammar_.new_rule({sequence(name, literal(":"), space(), rule(value), rule(rest[i + 1]))});
    }
    // The members that may come first among those from i on, each after `before`; the end, if none has to.
    const auto add = [&](int32_t to, size_t i, const Symbols& before, const Symbols& close) {
      for (; i < count; ++i) {
        grammar_.add(to, sequence(before, rule(member[i])));
        if (properties[i].required) return;
      }
      grammar_.add(to, close);
    };
    for (size_t i = 0; i <= count; ++i) add(rest[i], i, sequence(literal(","), space()), end);
    const int32_t all = grammar_.new_rule();
    add(all, 0, sequence(literal("{"), space()), sequence(literal("{"), end));
    return all;
  }

  int32_t rule_of(const JsonValue& schema) {
    if (schema.is_boolean()) {
      if (schema.boolean()) return value_;
      return grammar_.new_rule();  // nothing
    }
    if (!schema.is_object()) schema.fail("a schema, which is an object, true or false");
    // Before its parts are read, which may refer to it.
    const auto [known, added] = rules_.try_emplace(schema.number_in_document(), -1);
    if (!added) return known->second;
    const int32_t own = grammar_.new_rule();
    known->second = own;
    if (++nested_ > kMostNested)
      throw DataError(concat(schema.path(), ": expected a nesting depth of at most ", kMostNested,
                             ", references included, found more"));
    Keywords keywords(schema);
    if (!add_reference(own, keywords) && !add_choice(own, keywords) && !add_constants(own, keywords))
      add_types(own, schema, keywords);
    keywords.done();
    --nested_;
    return own;
  }

  bool add_reference(int32_t own, Keywords& keywords) {
    const auto reference = keywords.find("$ref");
    if (!reference) return false;
    const std::string to = reference->string();
    if (!to.starts_with('#')) reference->fail("a reference within the document, such as \"#/$defs/name\"");
    JsonValue at = document_;
    for (size_t begin = 1; begin < to.size();) {
      const size_t end = std::min(to.find('/', begin + 1), to.size());
      const std::string key = unescaped(to.substr(begin + 1, end - begin - 1));
      const auto next = to[begin] == '/' && at.is_object() ? at.find(key) : std::nullopt;
      if (!next) reference->fail("a reference to a part of the document");
      at = *next;
      begin = end;
    }
    grammar_.add(own, {rule(rule_of(at))});
    return true;
  }

  // Of a JSON pointer.
  static std::string unescaped(std::string part) {
    for (const auto& [from, to] : {std::pair("~1", "/"), std::pair("~0", "~")}) {
      for (size_t at = part.find(from); at != part.npos; at = part.find(from, at + 1))
        part.replace(at, 2, to);
    }
    return part;
  }

  bool add_choice(int32_t own, Keywords& keywords) {
    for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
      const auto choices = keywords.find(keyword);
      if (!choices) continue;
      if (choices->size() == 0 || (std::string_view(keyword) == "allOf" && choices->size() > 1))
        choices->fail(std::string_view(keyword) == "allOf" ? "one schema" : "at least one schema");
      std::vector<std::string> texts;
      for (const JsonValue& one : choices->items()) {
        if (one.is_object() && (one.has("const") || one.has("enum"))) {
          Keywords of_choice(one);
          std::ranges::copy(constants(of_choice), std::back_inserter(texts));
          of_choice.done();
        } else {
          grammar_.add(own, {rule(rule_of(one))});
        }
      }
      add_texts(own, std::move(texts));
      return true;
    }
    return false;
  }

  bool add_constants(int32_t own, Keywords& keywords) {
    std::vector<std::string> texts = constants(keywords);
    if (texts.empty()) return false;
    add_texts(own, std::move(texts));
    return true;
  }

  // Of "enum" and "const", the values that "type" allows too; empty: it has neither.
  static std::vector<std::string> constants(Keywords& keywords) {
    const auto all = keywords.find("enum"), one = keywords.find_even_null("const");
    if (!all && !one) return {};
    std::vector<JsonValue> values = all ? all->items() : std::vector{*one};
    if (all && one)
      std::erase_if(values, [&](const JsonValue& value) { return value.text() != one->text(); });
    if (const auto type = keywords.find("type")) {
      const std::vector<std::string> names = names_of(*type);
      std::erase_if(values, [&](const JsonValue& value) {
        return std::ranges::none_of(names, [&](const std::string& name) { return has_type(value, name); });
      });
    }
    if (values.empty()) (all ? *all : *one).fail("a value that the other keywords allow");
    std::vector<std::string> texts;
    for (const JsonValue& value : values) {
      constexpr double kMostExact = 1e16;
      if (value.is_number() && !(std::abs(value.number()) < kMostExact) && !value.is_integer())
        value.fail("a number of at most 16 digits");
      texts.push_back(value.text());
    }
    return texts;
  }

  void add_texts(int32_t own, std::vector<std::string> texts) {
    std::ranges::sort(texts);
    texts.erase(std::ranges::unique(texts).begin(), texts.end());
    add_texts(own, texts, 0, kMostShared);
  }
  // One of these texts, distinct and sorted, from byte `begin` on. Those with a common beginning share it, so
  // that an output is the beginning of one alternative, not of thousands.
  void add_texts(int32_t own, std::span<const std::string> texts, size_t begin, int nested) {
    while (!texts.empty()) {
      const std::string& first = texts.front();
      const auto differs = [&](const std::string& text) {
        return begin == first.size() || begin == text.size() || text[begin] != first[begin];
      };
      const auto other = std::ranges::find_if(texts.subspan(1), differs);
      const auto alike = texts.first(static_cast<size_t>(other - texts.subspan(1).begin()) + 1);
      texts = texts.subspan(alike.size());
      if (alike.size() == 1 || nested == 0) {
        for (const std::string& text : alike)
          grammar_.add(own, literal(std::string_view(text).substr(begin)));
        continue;
      }
      const size_t end = static_cast<size_t>(std::ranges::mismatch(first, alike.back()).in1 - first.begin());
      const int32_t rest = grammar_.new_rule();
      grammar_.add(own, sequence(literal(std::string_view(first).substr(begin, end - begin)), rule(rest)));
      add_texts(rest, alike, end, nested - 1);
    }
  }

  static std::vector<std::string> names_of(const JsonValue& type) {
    std::vector<std::string> names;
    if (!type.is_array()) return {type.string()};
    for (const JsonValue& one : type.items()) names.push_back(one.string());
    return names;
  }

  void add_types(int32_t own, const JsonValue& schema, Keywords& keywords) {
    const auto type = keywords.find("type");
    std::vector<std::string> names;
    if (type) {
      names = names_of(*type);
    } else if (schema.has("properties")) {
      names.emplace_back("object");
    } else if (schema.has("items") || schema.has("prefixItems")) {
      names.emplace_back("array");
    } else {
      grammar_.add(own, {rule(value_)});
      return;
    }
    for (const std::string& name : names) {
      const std::optional<int32_t> of_type = rule_of_type(name, keywords);
      if (!of_type) type->fail("types of object, array, string, number, integer, boolean and null");
      grammar_.add(own, {rule(*of_type)});
    }
  }

  std::optional<int32_t> rule_of_type(const std::string& type, Keywords& keywords) {
    if (type == "object") return object(keywords);
    if (type == "array") return array(keywords);
    if (type == "string") return string(keywords);
    if (type == "integer") return integer(keywords);
    if (type == "number") {
      for (const char* bound : kBounds) {
        if (const auto given = keywords.find(bound))
          given->fail("no bound of the type \"number\", but of \"integer\" alone");
      }
      return number_;
    }
    if (type == "boolean") return boolean_;
    if (type == "null") return null_;
    return {};
  }

  int32_t object(Keywords& keywords) {
    const auto additional = keywords.find("additionalProperties");
    const auto properties = keywords.find("properties");
    std::set<std::string> required;
    const auto names = keywords.find("required");
    if (names) {
      for (const JsonValue& one : names->items()) required.insert(one.string());
    }
    keywords.neutral("minProperties", "0");
    std::vector<Property> all;
    if (properties && properties->size() > kMostProperties)
      properties->fail(concat("at most ", kMostProperties, " properties"));
    if (properties) {
      properties->members([&](std::string_view name, const JsonValue& value) {
        all.push_back({literal(quoted_json(name)), rule_of(value), required.erase(std::string(name)) > 0});
      });
    }
    if (!required.empty()) names->fail(concat("names of properties, without \"", *required.begin(), "\""));
    if (!all.empty()) {
      if (additional && !additional->is_boolean())
        additional->fail("true or false beside properties, as no other members are written");
      return object_of(all);
    }
    if (properties && additional && additional->is_boolean() && !additional->boolean()) return object_of({});
    return additional ? map_of(rule_of(*additional)) : object_;
  }

  int32_t array(Keywords& keywords) {
    std::vector<int32_t> first;
    if (const auto items = keywords.find("prefixItems")) {
      for (const JsonValue& one : items->items()) first.push_back(rule_of(one));
    }
    const auto items = keywords.find("items");
    keywords.neutral("uniqueItems", "false");
    const bool none = items ? items->is_boolean() && !items->boolean() : !first.empty();
    const int64_t least = keywords.count("minItems").value_or(0);
    const int64_t most = keywords.count("maxItems").value_or(kAnyNumber);
    return list_of(first, none ? -1 : items ? rule_of(*items) : value_, least, most);
  }

  int32_t string(Keywords& keywords) {
    const int64_t least = keywords.count("minLength").value_or(0);
    const int64_t most = keywords.count("maxLength").value_or(kAnyNumber);
    if (least == 0 && most == kAnyNumber) return string_;
    return grammar_.new_rule(
        {sequence(literal("\""), rule(chain(rule(character_), least, most, literal("\""))))});
  }

  int32_t integer(Keywords& keywords) {
    double least = -static_cast<double>(kMostInteger), most = -least;
    bool bounded = false;
    for (const char* bound : kBounds) {
      const auto given = keywords.find(bound);
      if (!given) continue;
      bounded = true;
      const double number = given->number();
      const std::string_view name = bound;
      if (name == "minimum") least = std::max(least, std::ceil(number));
      if (name == "exclusiveMinimum") least = std::max(least, std::floor(number) + 1);
      if (name == "maximum") most = std::min(most, std::floor(number));
      if (name == "exclusiveMaximum") most = std::min(most, std::ceil(number) - 1);
    }
    if (!bounded) return integer_;
    if (least > most) return grammar_.new_rule();  // none
    return integers_between(grammar_, static_cast<int64_t>(least), static_cast<int64_t>(most));
  }

  JsonValue document_;
  Grammar& grammar_;
  int nested_ = 0;
  std::unordered_map<uint32_t, int32_t> rules_;  // of schemas, by their numbers in the document
  int32_t space_ = 0, character_ = 0, string_ = 0, integer_ = 0, number_ = 0, boolean_ = 0, null_ = 0,
          value_ = 0, object_ = 0, array_ = 0;
};

}  // namespace

int32_t add_json_schema(Grammar& grammar, const std::string& schema, const std::string& name) {
  if (schema.size() > kMostBytes)
    throw DataError(concat(name, ": expected at most ", kMostBytes, " bytes, found ", schema.size()));
  const JsonValue document = parse_json(schema, name);
  try {
    return Compiler(document, grammar).compile();
  } catch (const UsageError& error) {  // too large
    throw DataError(concat(name, ": ", error.what()));
  }
}

Grammar grammar_of_json_schema(const std::string& schema, const std::string& name) {
  Grammar grammar;
  const int32_t start = grammar.new_rule();
  grammar.add(start, {rule(add_json_schema(grammar, schema, name))});
  return grammar;
}

}  // namespace qkv::grammar
