#include "qkv/io/pytorch/pytorch_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/io/pytorch/pickle.h"
#include "qkv/io/pytorch/zip.h"

namespace qkv::io {

struct PytorchElementType {
  std::string_view storage, name, spelling;  // torch.FloatStorage, torch.float32, F32
  size_t bytes;
};

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are mapped as they are");

constexpr std::array<PytorchElementType, 20> kElementTypes{
    {{"FloatStorage", "float32", "F32", 4},
     {"HalfStorage", "float16", "F16", 2},
     {"BFloat16Storage", "bfloat16", "BF16", 2},
     {"DoubleStorage", "float64", "F64", 8},
     {"LongStorage", "int64", "I64", 8},
     {"IntStorage", "int32", "I32", 4},
     {"ShortStorage", "int16", "I16", 2},
     {"CharStorage", "int8", "I8", 1},
     {"ByteStorage", "uint8", "U8", 1},
     {"BoolStorage", "bool", "BOOL", 1},
     {"ComplexFloatStorage", "complex64", "C64", 8},
     {"ComplexDoubleStorage", "complex128", "C128", 16},
     {"", "uint16", "U16", 2},
     {"", "uint32", "U32", 4},
     {"", "uint64", "U64", 8},
     {"", "float8_e4m3fn", "F8_E4M3", 1},
     {"", "float8_e5m2", "F8_E5M2", 1},
     {"QInt8Storage", "qint8", "QI8", 1},
     {"QUInt8Storage", "quint8", "QU8", 1},
     {"QInt32Storage", "qint32", "QI32", 4}}};

// Of "torch FloatStorage", or "torch float32"; null for another name.
const PytorchElementType* element_type_named(std::string_view global) {
  const size_t space = global.find(' ');
  if (space == global.npos || !global.starts_with("torch")) return nullptr;
  const std::string_view name = global.substr(space + 1);
  const auto found = std::ranges::find_if(kElementTypes, [&](const PytorchElementType& type) {
    return type.storage == name || type.name == name;
  });
  return found == kElementTypes.end() ? nullptr : &*found;
}

// The pickles before a file's dictionary that precedes PyTorch 1.6: a number, a version, and the machine's
// sizes.
constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

// The integers of a tuple, such as a shape.
std::optional<std::vector<int64_t>> integers_of(const Pickle& pickle, const Pickle::Value& list) {
  std::vector<int64_t> integers;
  if (list.kind != Pickle::Kind::list) return std::nullopt;
  for (const Pickle::Ref item : list.items) {
    if (pickle[item].kind != Pickle::Kind::integer) return std::nullopt;
    integers.push_back(pickle[item].integer);
  }
  return integers;
}

bool in_order(const Shape& shape, const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1 && strides[static_cast<size_t>(axis)] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

}  // namespace

// The numbers of one or more tensors.
struct PytorchFile::Storage {
  const PytorchElementType* type = nullptr;  // null: each tensor has its own, or it is not known
  std::string type_name, key;
};

// Reads the dictionary and finds the numbers of its tensors.
class PytorchFile::Tensors {
 public:
  Tensors(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  std::map<std::string, Entry> read() {
    if (is_zip(bytes_)) return read_archive();
    return read_legacy();
  }

 private:
  using Kind = Pickle::Kind;
  using Value = Pickle::Value;

  [[noreturn]] void fail(const std::string& what) const { throw DataError(concat(name_, ": ", what)); }

  std::map<std::string, Entry> read_archive() {
    const auto files = stored_entries(bytes_, name_);
    constexpr std::string_view kPickle = "data.pkl";
    const auto pickle = std::ranges::find_if(files, [&](const auto& file) {
      const std::string& path = file.first;
      return path.ends_with(kPickle) &&
             (path.size() == kPickle.size() || path[path.size() - kPickle.size() - 1] == '/');
    });
    if (pickle == files.end()) fail("expected a file of torch.save(), found an archive without data.pkl");
    const std::string root = pickle->first.substr(0, pickle->first.size() - kPickle.size());
    if (const auto order = files.find(root + "byteorder"); order != files.end()) {
      const std::span<const std::byte> all = order->second.bytes;
      const std::string_view found(reinterpret_cast<const char*>(all.data()), all.size());
      if (found != "little")
        fail(concat("expected numbers in the byte order little, found ", found.substr(0, 20)));
    }
    const auto& [bytes, checksum] = pickle->second;
    if (checksum != 0 && crc32(bytes) != checksum)
      fail(concat(pickle->first.substr(0, 80), " does not match its checksum: the file is damaged"));
    const Pickle dictionary(bytes, name_);
    return tensors_of(dictionary, [&](const Storage& storage) {
      const auto found = files.find(concat(root, "data/", storage.key));
      if (found == files.end())
        fail(concat("expected the numbers data/", storage.key.substr(0, 80), ", found none"));
      return found->second;
    });
  }

  // Five pickles: a magic number, a version, the machine, the dictionary, and the keys of the storages, each
  // of which then follows as its count and its numbers.
  std::map<std::string, Entry> read_legacy() {
    if (std::string_view(reinterpret_cast<const char*>(bytes_.data()), std::min<size_t>(bytes_.size(), 24))
            .starts_with("version https://git-lfs"))
      fail(
          "expected a file of torch.save(), found Git LFS's pointer to one; 'git lfs pull' in its folder "
          "fetches it");
    if (bytes_.empty()) fail("expected a file of torch.save(), found an empty one");
    if (bytes_[0] != std::byte{0x80})
      fail("expected a file of torch.save(), which begins with PK or a pickle, found another format");
    size_t next = 0;
    const auto pickle = [&] {
      Pickle read(bytes_.subspan(next), name_);
      next += read.size();
      return read;
    };
    const Pickle magic = pickle();
    if (magic.result().text != kMagic)
      fail("expected the magic number of torch.save(), found another pickle");
    pickle();
    const Pickle machine = pickle();
    for (size_t i = 0; i + 1 < machine.result().items.size(); i += 2) {
      if (machine[machine.result().items[i]].text == "little_endian" &&
          machine[machine.result().items[i + 1]].integer == 0)
        fail("expected numbers in the byte order little, found another");
    }
    const Pickle dictionary = pickle();
    std::map<std::string, Storage> storages;
    for (Pickle::Ref i = 0; i < dictionary.count(); ++i) {
      if (dictionary[i].kind != Kind::persistent) continue;
      const Storage storage = storage_of(dictionary, dictionary[i]);
      storages[storage.key] = storage;
    }
    const Pickle keys = pickle();
    std::map<std::string, StoredEntry> numbers;
    for (const Pickle::Ref item : keys.result().items) {
      const std::string& key = keys[item].text;
      const auto found = storages.find(key);
      if (found == storages.end() || found->second.type == nullptr)
        fail(concat("expected the numbers of its tensors, found those of another key, ", key.substr(0, 80)));
      int64_t count = 0;
      if (bytes_.size() - next < sizeof(count)) fail("the file is truncated");
      std::memcpy(&count, bytes_.data() + next, sizeof(count));
      next += sizeof(count);
      const size_t element = found->second.type->bytes;
      if (count < 0 || static_cast<uint64_t>(count) > (bytes_.size() - next) / element)
        fail(concat("expected ", count, " numbers of ", element, " bytes at byte ", next,
                    ", found a file of ", bytes_.size(), "; it is truncated"));
      numbers[key].bytes = bytes_.subspan(next, static_cast<size_t>(count) * element);
      next += numbers[key].bytes.size();
    }
    return tensors_of(dictionary, [&](const Storage& storage) {
      const auto found = numbers.find(storage.key);
      if (found == numbers.end())
        fail(concat("expected the numbers of ", storage.key.substr(0, 80), ", found none"));
      return found->second;
    });
  }

  // Of an id ("storage", torch.FloatStorage, key, device, count).
  Storage storage_of(const Pickle& pickle, const Value& persistent) const {
    const Value& id = pickle[persistent.items.front()];
    const auto item = [&](size_t i, Kind kind) -> const Value& {
      if (id.kind != Kind::list || id.items.size() <= i || pickle[id.items[i]].kind != kind)
        fail("expected the id of a storage as torch.save() writes it, found another");
      return pickle[id.items[i]];
    };
    if (item(0, Kind::text).text != "storage")
      fail("expected the id of a storage, found that of another object");
    const std::string& type = item(1, Kind::name).text;
    const PytorchElementType* const element = element_type_named(type);
    if (id.items.size() > 5 && pickle[id.items[5]].kind != Kind::none)
      fail("expected storages of their own, found a view of another one");
    return {element, type, item(2, Kind::text).text};
  }

  template <class Numbers>
  std::map<std::string, Entry> tensors_of(const Pickle& pickle, const Numbers& numbers) const {
    const Value& dictionary = pickle.result();
    if (dictionary.kind != Kind::dictionary)
      fail("expected a dictionary of tensors (a state_dict), found another object");
    std::map<std::string, Entry> entries;
    std::string others;
    for (size_t i = 0; i + 1 < dictionary.items.size(); i += 2) {
      const Value &key = pickle[dictionary.items[i]], &value = pickle[dictionary.items[i + 1]];
      if (key.kind != Kind::text) continue;
      if (std::optional<Entry> entry = entry_of(pickle, value, key.text, numbers)) {
        entries.insert_or_assign(key.text, *std::move(entry));
      } else if (others.size() < 80) {
        others += concat(others.empty() ? "" : ", ", key.text.substr(0, 80));
      }
    }
    if (entries.empty())
      fail(concat("expected a dictionary of tensors (a state_dict), found one without a tensor: ",
                  others.empty() ? "an empty one" : others));
    return entries;
  }

  // The tensor of a call, whatever wraps it; nothing for another value.
  template <class Numbers>
  std::optional<Entry> entry_of(const Pickle& pickle, const Value& value, const std::string& name,
                                const Numbers& numbers) const {
    const Value* call = &value;
    if (is_call(pickle, *call, "torch._utils _rebuild_parameter") ||
        is_call(pickle, *call, "torch._utils _rebuild_parameter_with_state"))
      call = &argument(pickle, *call, 0);
    if (call->kind != Kind::call || pickle[call->items[0]].kind != Kind::name) return std::nullopt;
    std::string function = pickle[call->items[0]].text;
    const Value* arguments = &pickle[call->items[1]];
    if (function == "torch._tensor _rebuild_from_type_v2") {  // (function, class, its arguments, attributes)
      const std::string& made = argument(pickle, *call, 1).text;
      if (made == "torch Tensor" || made == "torch.nn.parameter Parameter" ||
          made == "torch.nn.parameter Buffer") {
        function = argument(pickle, *call, 0).text;
        arguments = &argument(pickle, *call, 2);
      }
    }
    const bool third = function == "torch._utils _rebuild_tensor_v3";
    if (third || function == "torch._utils _rebuild_tensor_v2" || function == "torch._utils _rebuild_tensor")
      return tensor_of(pickle, *arguments, third, name, numbers);
    if (!function.starts_with("torch._utils _rebuild_") && !function.starts_with("torch._tensor "))
      return std::nullopt;
    Entry other;
    other.problem = concat("an object of ", function.substr(0, 80));
    return other;
  }

  static bool is_call(const Pickle& pickle, const Value& value, std::string_view function) {
    return value.kind == Kind::call && pickle[value.items[0]].kind == Kind::name &&
           pickle[value.items[0]].text == function;
  }
  const Value& argument(const Pickle& pickle, const Value& call, size_t i) const {
    return item(pickle, pickle[call.items[1]], i);
  }
  const Value& item(const Pickle& pickle, const Value& list, size_t i) const {
    if (list.kind != Kind::list || list.items.size() <= i)
      fail("expected the arguments of a tensor, found fewer");
    return pickle[list.items[i]];
  }

  // Of (storage, offset, shape, strides, requires_grad, hooks, metadata); the third version has the dtype
  // before the metadata.
  template <class Numbers>
  Entry tensor_of(const Pickle& pickle, const Value& arguments, bool third, const std::string& name,
                  const Numbers& numbers) const {
    Entry entry;
    const Value& id = item(pickle, arguments, 0);
    if (id.kind != Kind::persistent)
      fail(concat(name.substr(0, 80), ": expected the storage of a tensor, found none"));
    const Storage storage = storage_of(pickle, id);
    const std::string& type_name = third ? item(pickle, arguments, 6).text : storage.type_name;
    const PytorchElementType* const type = third ? element_type_named(type_name) : storage.type;
    const auto shape = integers_of(pickle, item(pickle, arguments, 2)),
               strides = integers_of(pickle, item(pickle, arguments, 3));
    const Value& offset = item(pickle, arguments, 1);
    if (!shape || !strides || shape->size() != strides->size() || offset.kind != Kind::integer ||
        offset.integer < 0)
      fail(concat(name.substr(0, 80), ": expected a tensor's offset, shape and strides, found others"));
    if (type == nullptr) entry.problem = concat("numbers of the type ", type_name.substr(0, 80));
    if (shape->size() > size_t{Shape::kMaxRank})
      entry.problem = concat(shape->size(), " dimensions (at most ", Shape::kMaxRank, ")");
    // The bits of a lazy negation or conjugation, "neg" and "conj".
    if (const size_t last = third ? 7 : 6; arguments.items.size() > last) {
      const Value& metadata = pickle[arguments.items[last]];
      if (!metadata.items.empty())
        entry.problem = concat("the property ", pickle[metadata.items.front()].text.substr(0, 80));
    }
    if (!entry.problem.empty()) return entry;
    const StoredEntry found = numbers(storage);
    entry.dtype = type->spelling;
    entry.strides = *strides;
    entry.element = type->bytes;
    entry.storage = found.bytes;
    entry.checksum = found.checksum;
    const auto count = static_cast<int64_t>(found.bytes.size() / type->bytes);
    int64_t last = offset.integer, size = 1, bounded = 1;  // the place of the last number; of extents above 0
    for (size_t axis = 0; axis < shape->size(); ++axis) {
      const int64_t extent = (*shape)[axis], stride = (*strides)[axis];
      int64_t step = 0;
      if (extent < 0 || stride < 0 ||
          __builtin_mul_overflow(bounded, std::max<int64_t>(extent, 1), &bounded) ||
          bounded >= int64_t{1} << 60 ||
          __builtin_mul_overflow(std::max<int64_t>(extent - 1, 0), stride, &step) ||
          __builtin_add_overflow(last, step, &last))
        fail(concat(name.substr(0, 80), ": expected a tensor within its numbers, found the extent ", extent,
                    " and the stride ", stride));
      size *= extent;
    }
    if (offset.integer > count || (size > 0 && last >= count))
      fail(concat(name.substr(0, 80), ": expected a tensor within its ", count, " numbers, found one from ",
                  offset.integer, " to ", last));
    entry.begin = static_cast<size_t>(found.bytes.data() - bytes_.data()) +
                  static_cast<size_t>(offset.integer) * type->bytes;
    entry.shape = Shape(*shape);
    // Repeated, without a limit for the size of the file.
    if (size > count - offset.integer)
      entry.problem =
          concat(entry.shape, ", more than the ", count - offset.integer, " numbers of its storage");
    return entry;
  }

  std::span<const std::byte> bytes_;
  std::string name_;
};

PytorchFile::PytorchFile(const std::filesystem::path& path, MapFor use)
    : path_(path),
      use_(use),
      file_(std::make_shared<MappedFile>(path, use)),
      entries_(Tensors({file_->data(), file_->size()}, path.string()).read()) {}

std::vector<std::string> PytorchFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const PytorchFile::Entry& PytorchFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw_no_tensor(*this, name);
  return found->second;
}

const PytorchFile::Entry& PytorchFile::readable(const std::string& name) const {
  const Entry& found = entry(name);
  if (found.problem.empty()) return found;
  throw DataError(
      concat(path_.string(), ": ", name, ": expected a tensor of plain numbers, found ", found.problem));
}

ChecksumReport PytorchFile::verify() const {
  std::map<const std::byte*, bool> matches;  // by storage
  ChecksumReport report;
  for (const auto& [name, entry] : entries_) {
    if (entry.storage.empty()) continue;  // nothing to compare
    if (entry.checksum == 0) {
      report.unchecked.push_back(name);
      continue;
    }
    const auto [storage, is_new] = matches.try_emplace(entry.storage.data());
    if (is_new) {
      storage->second = crc32(entry.storage) == entry.checksum;
      release_mapped(entry.storage.data(), entry.storage.size());
    }
    if (storage->second) {
      ++report.matching;
    } else {
      report.differing.push_back(name);
    }
  }
  return report;
}

const Shape& PytorchFile::shape(const std::string& name) const { return entry(name).shape; }
const std::string& PytorchFile::dtype(const std::string& name) const { return entry(name).dtype; }

void PytorchFile::copy_in_order(const std::string& name, std::byte* to) const {
  const Entry& from = readable(name);
  const int64_t count = from.shape.numel();
  std::array<int64_t, Shape::kMaxRank> place{};
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + static_cast<size_t>(i) * from.element,
                file_->data() + from.begin + static_cast<size_t>(offset) * from.element, from.element);
    for (int axis = from.shape.rank() - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      offset += from.strides[a];
      if (++place[a] < from.shape[axis]) break;
      offset -= place[a] * from.strides[a];
      place[a] = 0;
    }
  }
}

Tensor PytorchFile::as_stored(const std::string& name, const Shape& expected) const {
  const Entry& found = readable(name);
  if (found.shape != expected)
    throw DataError(
        concat(path_.string(), ": ", name, ": expected shape ", expected, ", found ", found.shape));
  const std::optional<DType> dtype = element_type(found.dtype);
  if (!dtype)
    throw DataError(concat(path_.string(), ": ", name, ": expected a dtype such as F32, F16 or BF16, found ",
                           found.dtype));
  if (in_order(found.shape, found.strides))
    return mapped_tensor(file_, file_->data() + found.begin, found.shape, *dtype, use_,
                         concat(name, " of ", path_.string()));
  qkv::Storage copy = allocate(bytes_of(*dtype, found.shape.numel()));
  copy_in_order(name, copy.get());
  return Tensor::wrap(std::move(copy), found.shape, *dtype);
}

std::span<const std::byte> PytorchFile::bytes(const std::string& name) const {
  const Entry& found = readable(name);
  const size_t size = static_cast<size_t>(found.shape.numel()) * found.element;
  if (in_order(found.shape, found.strides)) return {file_->data() + found.begin, size};
  const std::lock_guard lock(mutex_);
  auto place = ordered_.find(name);
  if (place == ordered_.end()) {
    std::vector<std::byte> all(size);
    copy_in_order(name, all.data());
    place = ordered_.emplace(name, std::move(all)).first;
  }
  return place->second;
}

}  // namespace qkv::io
