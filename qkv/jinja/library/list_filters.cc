// Filters of lists and dictionaries.

#include <algorithm>
#include <array>
#include <unordered_set>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/jinja/library/filters.h"
#include "qkv/jinja/python/strings.h"
#include "qkv/jinja/run/objects.h"
#include "qkv/jinja/run/operators.h"

namespace qkv::jinja {
namespace {

using Args = const Arguments&;
using Kind = Value::Kind;

Value without_case(Run& run, const Value& value) {
  return value.is_string() ? run.text(lower(value.string())) : value;
}

// The items that `make` adds, as a generator: an error becomes one of the generator, thrown where jinja2's
// would be.
template <class Make>
Value generated(Run& run, const Make& make) {
  std::vector<Value> items;
  std::string error;
  try {
    make(items);
  } catch (const LimitError&) {
    throw;
  } catch (const DataError& failed) {
    error = failed.what();
  }
  return run.object<Iterator>(run.list(std::move(items)), error);
}

Value none_or(const Bound& bound, size_t parameter) { return bound.value_or(parameter, {}); }

Value length_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "length", args, {});
  const std::optional<int64_t> found = length(run, value);
  if (!found) run.fail(concat("length: expected a value with a length, found a ", value.type_name()));
  return *found;
}

Value list_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "list", args, {});
  return run.list(iterate(run, value));
}

Value first(Run& run, const Value& value, Args args) {
  const Bound bound(run, "first", args, {});
  if (Iterator* iterator = value.as<Iterator>())
    return iterator->next(run).value_or(Value::undefined("No first item, sequence was empty."));
  const std::vector<Value> items = iterate(run, value);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Run& run, const Value& value, Args args) {
  const Bound bound(run, "last", args, {});
  if (value.as<Iterator>() != nullptr) run.fail("last: expected a sequence, found a generator");
  const std::vector<Value> items = iterate(run, value);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value join(Run& run, const Value& value, Args args) {
  const Bound bound(run, "join", args, {"d", "attribute"});
  const std::string separator = bound.find(0) != nullptr ? str(run, *bound.find(0)) : "";
  const Value path = none_or(bound, 1);
  std::string all;
  bool begins = true;
  for (const Value& one : iterate(run, value)) {
    if (!std::exchange(begins, false)) all += separator;
    all += str(run, path_value(run, one, path));
    run.check_text(all.size());
  }
  return run.text(std::move(all));
}

Value reverse(Run& run, const Value& value, Args args) {
  const Bound bound(run, "reverse", args, {});
  if (value.is_string()) {
    std::u32string characters = decode_utf8(value.string());
    std::reverse(characters.begin(), characters.end());
    return run.text_like(value, encode_utf8(characters));
  }
  std::vector<Value> items = iterate(run, value);
  std::reverse(items.begin(), items.end());
  // reversed() of a sequence; of a generator jinja2 makes a list.
  if (value.as<Iterator>() != nullptr) return run.list(std::move(items));
  return run.object<Iterator>(run.list(std::move(items)));
}

// Sorted by keys; equal ones stay in their order, also with `descending`.
std::vector<Value> sorted(Run& run, const std::vector<Value>& items, const std::vector<Value>& keys,
                          bool descending) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return ordered(run, Operator::lt, keys[descending ? b : a], keys[descending ? a : b]);
  });
  std::vector<Value> all;
  for (const size_t i : order) all.push_back(items[i]);
  return all;
}

Value sort_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool exact = bound.truth_or(1, false);
  std::vector<Value> paths{none_or(bound, 2)};
  if (paths[0].is_string()) {
    const std::string all = paths[0].string();
    paths.clear();
    for (std::string& one : split(all, ",", -1)) paths.push_back(run.text(std::move(one)));
  }
  const std::vector<Value> items = iterate(run, value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> parts;
    for (const Value& path : paths) {
      const Value key = path_value(run, item, path);
      parts.push_back(exact ? key : without_case(run, key));
    }
    keys.push_back(run.list(std::move(parts)));
  }
  return run.list(sorted(run, items, keys, bound.truth_or(0, false)));
}

Value dictsort(Run& run, const Value& value, Args args) {
  const Bound bound(run, "dictsort", args, {"case_sensitive", "by", "reverse"});
  check_defined(run, value);
  if (!value.is_dict()) run.fail(concat("dictsort: expected a dict, found a ", value.type_name()));
  const std::string by = bound.find(1) != nullptr ? bound.text(1) : "key";
  if (by != "key" && by != "value") run.fail("dictsort: by: expected key or value, found " + string_repr(by));
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto& [key, one] : value.dict().items()) {
    items.push_back(run.tuple({key, one}));
    const Value& part = by == "key" ? key : one;
    keys.push_back(bound.truth_or(0, false) ? part : without_case(run, part));
  }
  return run.list(sorted(run, items, keys, bound.truth_or(2, false)));
}

Value items_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "items", args, {});
  return generated(run, [&](std::vector<Value>& out) {
    if (value.is_undefined()) return;
    if (!value.is_dict()) run.fail(concat("items: expected a dict, found a ", value.type_name()));
    for (const auto& [key, one] : value.dict().items()) out.push_back(run.tuple({key, one}));
  });
}

Value unique(Run& run, const Value& value, Args args) {
  const Bound bound(run, "unique", args, {"case_sensitive", "attribute"});
  const Value path = none_or(bound, 1);
  const bool exact = bound.truth_or(0, false);
  return generated(run, [&](std::vector<Value>& out) {
    std::unordered_set<std::string> seen;
    for (const Value& item : iterate(run, value)) {
      const Value part = path_value(run, item, path);
      const std::optional<std::string> key = key_text(exact ? part : without_case(run, part));
      if (!key) run.fail(concat("unique: expected hashable values, found a ", part.type_name()));
      run.step(1 + key->size() / 256);
      if (seen.insert(*key).second) out.push_back(item);
    }
  });
}

template <bool largest>
Value extreme(Run& run, const Value& value, Args args) {
  const Bound bound(run, largest ? "max" : "min", args, {"case_sensitive", "attribute"});
  const Value path = none_or(bound, 1);
  const bool exact = bound.truth_or(0, false);
  Value best = Value::undefined("No aggregated item, sequence was empty.");
  std::optional<Value> best_key;
  for (const Value& item : iterate(run, value)) {
    Value key = path_value(run, item, path);
    if (!exact) key = without_case(run, key);
    if (best_key && !ordered(run, largest ? Operator::gt : Operator::lt, key, *best_key)) continue;
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Value sum_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "sum", args, {"attribute", "start"});
  const Value path = none_or(bound, 0);
  Value all = bound.value_or(1, 0);
  if (all.is_string()) run.fail("sum: expected a start that is no str, found one");
  for (const Value& item : iterate(run, value))
    all = arithmetic(run, Operator::add, all, path_value(run, item, path));
  return all;
}

Value batch(Run& run, const Value& value, Args args) {
  const Bound bound(run, "batch", args, {"linecount", "fill_with"});
  const int64_t size = to_integer(run, bound.required(0), "batch: linecount");
  const Value fill = none_or(bound, 1);
  return generated(run, [&](std::vector<Value>& out) {
    std::vector<Value> line;
    for (Value& item : iterate(run, value)) {
      if (static_cast<int64_t>(line.size()) == size) out.push_back(run.list(std::exchange(line, {})));
      line.push_back(std::move(item));
    }
    if (line.empty()) return;
    for (; !fill.is_none() && static_cast<int64_t>(line.size()) < size; run.step()) line.push_back(fill);
    out.push_back(run.list(std::move(line)));
  });
}

Value slice_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "slice", args, {"slices", "fill_with"});
  const int64_t slices = to_integer(run, bound.required(0), "slice: slices");
  const Value fill = none_or(bound, 1);
  return generated(run, [&](std::vector<Value>& out) {
    const std::vector<Value> items = iterate(run, value);
    if (slices == 0) run.fail("slice: expected a number of slices that is not 0, found 0");
    const auto size = static_cast<int64_t>(items.size());
    auto at = items.begin();
    for (int64_t i = 0; i < slices; ++i) {
      const bool extra = i < size % slices;
      const auto end = at + size / slices + (extra ? 1 : 0);
      std::vector<Value> part(at, end);
      at = end;
      if (!fill.is_none() && !extra) part.push_back(fill);
      out.push_back(run.list(std::move(part)));
    }
  });
}

Value map_filter(Run& run, const Value& value, Args args) {
  return generated(run, [&](std::vector<Value>& out) {
    if (!truth(run, value)) return;
    if (args.positional.empty()) {
      const Bound bound(run, "map", args, {"attribute", "default"});
      const Value* otherwise = bound.find(1);
      if (otherwise != nullptr && otherwise->is_none()) otherwise = nullptr;
      const Value& path = bound.required(0);
      for (const Value& item : iterate(run, value)) out.push_back(path_value(run, item, path, otherwise));
      return;
    }
    if (!args.positional[0].is_string()) run.fail("map: expected the name of a filter, found another value");
    const Filter filter = find_filter(args.positional[0].string());
    if (filter == nullptr)
      run.fail("map: the filter " + string_repr(args.positional[0].string()) + " is not supported");
    const Arguments rest{{args.positional.begin() + 1, args.positional.end()}, args.named};
    const Run::Nested nested(run);
    for (const Value& item : iterate(run, value)) out.push_back(filter(run, item, rest));
  });
}

template <bool keep, bool by_attribute>
Value select(Run& run, const Value& value, Args args) {
  return generated(run, [&](std::vector<Value>& out) {
    if (!truth(run, value)) return;
    constexpr size_t kTest = by_attribute ? 1 : 0;
    Value path;
    if (by_attribute) {
      if (args.positional.empty()) run.fail("selectattr, rejectattr: expected the name of an attribute");
      path = args.positional[0];
    }
    Test test = nullptr;
    Arguments rest;
    if (args.positional.size() > kTest) {
      const Value& name = args.positional[kTest];
      test = name.is_string() ? find_test(name.string()) : nullptr;
      if (test == nullptr)
        run.fail(concat("the test ", name.is_string() ? string_repr(name.string()) : name.type_name(),
                        " is not supported"));
      rest = {{args.positional.begin() + kTest + 1, args.positional.end()}, args.named};
    }
    for (const Value& item : iterate(run, value)) {
      const Value part = path_value(run, item, path);
      if ((test != nullptr ? test(run, part, rest) : truth(run, part)) == keep) out.push_back(item);
    }
  });
}

constexpr std::array<NamedFilter, 21> kListFilters = {{{"batch", batch},
                                                       {"count", length_filter},
                                                       {"dictsort", dictsort},
                                                       {"first", first},
                                                       {"items", items_filter},
                                                       {"join", join},
                                                       {"last", last},
                                                       {"length", length_filter},
                                                       {"list", list_filter},
                                                       {"map", map_filter},
                                                       {"max", extreme<true>},
                                                       {"min", extreme<false>},
                                                       {"reject", select<false, false>},
                                                       {"rejectattr", select<false, true>},
                                                       {"reverse", reverse},
                                                       {"select", select<true, false>},
                                                       {"selectattr", select<true, true>},
                                                       {"slice", slice_filter},
                                                       {"sort", sort_filter},
                                                       {"sum", sum_filter},
                                                       {"unique", unique}}};

}  // namespace

Filter find_list_filter(std::string_view name) {
  const auto* found = std::find_if(kListFilters.begin(), kListFilters.end(),
                                   [&](const NamedFilter& one) { return one.first == name; });
  return found == kListFilters.end() ? nullptr : found->second;
}

Value path_value(Run& run, const Value& of, const Value& path, const Value* otherwise) {
  if (path.is_none()) return of;
  Value value = of;
  const auto go = [&](const Value& key) {
    value = item(run, value, key);
    if (otherwise != nullptr && value.is_undefined()) value = *otherwise;
  };
  if (!path.is_string()) {
    go(path);
    return value;
  }
  for (const std::string& part : split(path.string(), ".", -1)) {
    bool overflow = false;
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    const std::optional<int64_t> index = digits ? parse_integer(part, 10, overflow) : std::nullopt;
    if (overflow) run.fail("expected an index of at most 64 bits, found " + part);
    go(index ? Value(*index) : run.text(part));
  }
  return value;
}

}  // namespace qkv::jinja
