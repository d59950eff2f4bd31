#include "qkv/io/pytorch/pickle.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "qkv/base/error.h"

namespace qkv::io {

// The machine of the format: a stack of values, marks on it, and a memo of values that are used again.
class Pickle::Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& file, std::deque<Value>& values)
      : bytes_(bytes), file_(file), values_(values) {}

  Ref run() {
    if (!bytes_.empty() && bytes_.front() != std::byte{0x80}) fail("one of protocol 0 or 1, or none,");
    while (!done_) step();
    return pop();
  }
  size_t position() const { return next_; }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(concat(file_, ": expected a Python pickle, found ", what, " at byte ", next_, " of it"));
  }

  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size() - next_) fail("its end");
    next_ += count;
    return bytes_.subspan(next_ - count, count);
  }
  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string text(uint64_t count) {
    const auto all = take(count);
    return {reinterpret_cast<const char*>(all.data()), all.size()};
  }
  std::string line() {
    const auto rest = bytes_.subspan(next_);
    const auto end = std::ranges::find(rest, std::byte{'\n'});
    if (end == rest.end()) fail("its end");
    std::string found = text(static_cast<uint64_t>(end - rest.begin()));
    ++next_;
    return found;
  }

  void spend(size_t bytes) {
    spent_ += bytes;
    if (spent_ > kMostBytes) fail(concat("more than ", kMostBytes, " bytes of texts and items"));
  }
  void push(Value value) {
    spend(value.text.size() + value.items.size() * sizeof(Ref));
    if (values_.size() >= kMostValues) fail(concat("more than ", kMostValues, " values"));
    values_.push_back(std::move(value));
    again(static_cast<Ref>(values_.size() - 1));
  }
  void again(Ref value) {
    if (stack_.size() >= kMostValues) fail(concat("more than ", kMostValues, " values"));
    stack_.push_back(value);
  }
  Ref pop() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() == marks_.back())) fail("an empty stack");
    const Ref top = stack_.back();
    stack_.pop_back();
    return top;
  }
  // What lies above the last mark.
  std::vector<Ref> pop_mark() {
    if (marks_.empty()) fail("no mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Ref> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<Ref> pop_some(int count) {
    std::vector<Ref> items;
    for (int i = 0; i < count; ++i) items.push_back(pop());
    std::ranges::reverse(items);
    return items;
  }
  void append(Kind kind, const std::vector<Ref>& items) {
    if (stack_.empty()) fail("an empty stack");
    Value& value = values_[stack_.back()];
    // A class may have items; what they become is its own matter.
    if (value.kind == Kind::call) return;
    if (value.kind != kind) fail("a value of another type");
    if (kind == Kind::dictionary && items.size() % 2 != 0) fail("a key without a value");
    spend(items.size() * sizeof(Ref));
    value.items.insert(value.items.end(), items.begin(), items.end());
  }

  void remember(uint64_t place) {
    if (stack_.empty()) fail("an empty stack");
    constexpr uint64_t kMostPlaces = kMostValues;
    if (place >= kMostPlaces) fail("a place of the memo beyond its limit");
    if (memo_.size() <= place) memo_.resize(place + 1, kNone);
    memo_[place] = stack_.back();
  }
  void recall(uint64_t place) {
    if (place >= memo_.size() || memo_[place] == kNone) fail("a place of the memo without a value");
    again(memo_[place]);
  }

  // func(*arguments), or an object of a class.
  void call() {
    const Ref arguments = pop(), function = pop();
    if (values_[arguments].kind != Kind::list) fail("arguments that are no tuple");
    // Of items by turns; collections.OrderedDict([(key, value), ...]).
    if (values_[function].kind == Kind::name && values_[function].text == "collections OrderedDict") {
      Value made{.kind = Kind::dictionary};
      if (const std::vector<Ref>& given = values_[arguments].items; !given.empty()) {
        for (const Ref pair : values_[given.front()].items) {
          if (values_[pair].kind != Kind::list || values_[pair].items.size() != 2)
            fail("a key without a value");
          made.items.insert(made.items.end(), values_[pair].items.begin(), values_[pair].items.end());
        }
      }
      return push(std::move(made));
    }
    push({.kind = Kind::call, .items = {function, arguments}});
  }

  void integer_of_bytes(uint64_t count) {
    const std::string all = text(count);
    if (count > sizeof(int64_t)) return push({.kind = Kind::text, .text = all});
    uint64_t value = 0;
    for (uint64_t i = 0; i < count; ++i) value |= uint64_t{static_cast<uint8_t>(all[i])} << (8 * i);
    if (count > 0 && count < 8 && (static_cast<uint8_t>(all.back()) & 0x80u) != 0)
      value |= ~uint64_t{0} << (8 * count);
    push({.kind = Kind::integer, .integer = static_cast<int64_t>(value)});
  }

  void step() {
    const auto text_of = [&](uint64_t count) { push({.kind = Kind::text, .text = text(count)}); };
    const auto integer = [&](int64_t value) { push({.kind = Kind::integer, .integer = value}); };
    const auto list = [&](std::vector<Ref> items) { push({.kind = Kind::list, .items = std::move(items)}); };
    const auto instruction = number<uint8_t>();
    switch (instruction) {
      case 0x80:  // PROTO
        if (const auto version = number<uint8_t>(); version < 2 || version > 5)
          fail(concat("protocol ", int{version}));
        return;
      case 0x95:  // FRAME
        take(8);
        return;
      case '.':  // STOP
        done_ = true;
        return;
      case '(':  // MARK
        if (marks_.size() >= kMostValues) fail(concat("more than ", kMostValues, " marks"));
        return marks_.push_back(stack_.size());
      case '0':  // POP, also of a mark
        if (!marks_.empty() && marks_.back() == stack_.size()) return marks_.pop_back();
        pop();
        return;
      case '1':  // POP_MARK
        pop_mark();
        return;
      case '2':  // DUP
        again(pop());
        return again(stack_.back());
      case 'N':
        return push({});
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        return push({.kind = Kind::boolean, .integer = instruction == 0x88 ? 1 : 0});
      case 'K':  // BININT1
        return integer(number<uint8_t>());
      case 'M':  // BININT2
        return integer(number<uint16_t>());
      case 'J':  // BININT
        return integer(number<int32_t>());
      case 0x8a:  // LONG1
        return integer_of_bytes(number<uint8_t>());
      case 0x8b:  // LONG4
        return integer_of_bytes(number<uint32_t>());
      case 'G':  // BINFLOAT
        take(8);
        return push({.kind = Kind::number});
      case 0x8c:  // SHORT_BINUNICODE
      case 'U':   // SHORT_BINSTRING
      case 'C':   // SHORT_BINBYTES
        return text_of(number<uint8_t>());
      case 'X':  // BINUNICODE
      case 'T':  // BINSTRING
      case 'B':  // BINBYTES
        return text_of(number<uint32_t>());
      case 0x8d:  // BINUNICODE8
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return text_of(number<uint64_t>());
      case ')':   // EMPTY_TUPLE
      case ']':   // EMPTY_LIST
      case 0x8f:  // EMPTY_SET
        return list({});
      case 0x85:  // TUPLE1, TUPLE2, TUPLE3
      case 0x86:
      case 0x87:
        return list(pop_some(instruction - 0x84));
      case 't':   // TUPLE
      case 'l':   // LIST
      case 0x91:  // FROZENSET
        return list(pop_mark());
      case 'a':  // APPEND
        return append(Kind::list, {pop()});
      case 'e':     // APPENDS
      case 0x90: {  // ADDITEMS
        const std::vector<Ref> items = pop_mark();
        return append(Kind::list, items);
      }
      case '}':  // EMPTY_DICT
        return push({.kind = Kind::dictionary});
      case 'd': {  // DICT
        std::vector<Ref> items = pop_mark();
        if (items.size() % 2 != 0) fail("a key without a value");
        return push({.kind = Kind::dictionary, .items = std::move(items)});
      }
      case 's': {  // SETITEM
        const std::vector<Ref> items = pop_some(2);
        return append(Kind::dictionary, items);
      }
      case 'u': {  // SETITEMS
        const std::vector<Ref> items = pop_mark();
        return append(Kind::dictionary, items);
      }
      case 'q':  // BINPUT
        return remember(number<uint8_t>());
      case 'r':  // LONG_BINPUT
        return remember(number<uint32_t>());
      case 0x94:  // MEMOIZE
        return remember(memo_.size());
      case 'h':  // BINGET
        return recall(number<uint8_t>());
      case 'j':  // LONG_BINGET
        return recall(number<uint32_t>());
      case 'c': {  // GLOBAL
        const std::string module = line();
        return push({.kind = Kind::name, .text = concat(module, " ", line())});
      }
      case 0x93: {  // STACK_GLOBAL
        const std::vector<Ref> both = pop_some(2);
        if (values_[both[0]].kind != Kind::text || values_[both[1]].kind != Kind::text)
          fail("a name that is no text");
        return push({.kind = Kind::name, .text = concat(values_[both[0]].text, " ", values_[both[1]].text)});
      }
      case 'Q': {  // BINPERSID
        const Ref id = pop();
        return push({.kind = Kind::persistent, .items = {id}});
      }
      case 'R':   // REDUCE
      case 0x81:  // NEWOBJ
        return call();
      case 0x92:  // NEWOBJ_EX, with arguments by name
        pop();
        return call();
      case 'b':  // BUILD: an object's attributes
        pop();
        if (stack_.empty()) fail("an empty stack");
        return;
      default:
        fail(concat("an unknown instruction ", int{instruction}));
    }
  }

  static constexpr Ref kNone = UINT32_MAX;

  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::deque<Value>& values_;
  size_t next_ = 0, spent_ = 0;
  bool done_ = false;
  std::vector<Ref> stack_, memo_;
  std::vector<size_t> marks_;
};

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& file) {
  Reader reader(bytes, file, values_);
  result_ = reader.run();
  size_ = reader.position();
}

}  // namespace qkv::io
