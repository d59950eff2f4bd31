#include "qkv/io/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/crc32c.h"

namespace qkv::io {
namespace {

constexpr size_t kPendingBytes = 16 << 10;

// A protocol buffers message in wire format, written field by field.
class Message {
 public:
  Message& integer(int field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& real64(int field, double value) {
    key(field, 1);
    return little_endian(std::bit_cast<uint64_t>(value), 8);
  }
  Message& real32(int field, float value) {
    key(field, 5);
    return little_endian(std::bit_cast<uint32_t>(value), 4);
  }
  Message& bytes(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.text_); }

  const std::string& text() const { return text_; }

 private:
  void key(int field, int wire_type) {
    varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
  }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  Message& little_endian(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) text_ += static_cast<char>(value >> (8 * i));
    return *this;
  }

  std::string text_;
};

// Field numbers of TensorFlow's event.proto, summary.proto, tensor.proto and tensor_shape.proto.
namespace event {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr int kStatus = 1;
constexpr int64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr int kValue = 1;
}
namespace value {
constexpr int kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}
namespace metadata {
constexpr int kPluginData = 1, kDataClass = 4;
constexpr int64_t kDataClassTensor = 2;
}  // namespace metadata
namespace plugin_data {
constexpr int kPluginName = 1;
}
namespace tensor {
constexpr int kDtype = 1, kShape = 2, kStringValue = 8;
constexpr int64_t kString = 7;
}  // namespace tensor
namespace tensor_shape {
constexpr int kDim = 2, kDimSize = 1;
}

Message new_event() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return Message().real64(event::kWallTime, now.count());
}

Message summary_of(const Message& summary_value, int64_t step) {
  return new_event()
      .integer(event::kStep, step)
      .message(event::kSummary, Message().message(summary::kValue, summary_value));
}

std::string little_endian(uint64_t number, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
  throw IoError(concat("cannot ", what, " ", path.string(), ": ", std::generic_category().message(errno)));
}

}  // namespace

EventWriter::EventWriter(const std::filesystem::path& folder, std::optional<int64_t> resume_step) {
  make_writable_folder(folder);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string stem =
      concat("events.out.tfevents.", std::chrono::duration_cast<std::chrono::seconds>(now).count(), ".",
             host_name(), ".", ::getpid(), ".");
  for (int count = 0; descriptor_ < 0; ++count) {  // the count distinguishes writers of the same second
    path_ = folder / concat(stem, count);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno != EEXIST) fail("create", path_);
  }
  add_record(new_event().bytes(event::kFileVersion, "brain.Event:2").text());
  if (resume_step) {
    add_record(new_event()
                   .integer(event::kStep, *resume_step)
                   .message(event::kSessionLog, Message().integer(session_log::kStatus, session_log::kStart))
                   .text());
  }
}

EventWriter::~EventWriter() {
  try {
    flush();
  } catch (const std::exception&) {  // a destructor cannot report errors
  }
  ::close(descriptor_);
}

void EventWriter::scalar(std::string_view tag, double value, int64_t step) {
  const Message point =
      Message().bytes(value::kTag, tag).real32(value::kSimpleValue, static_cast<float>(value));
  add_record(summary_of(point, step).text());
}

void EventWriter::text(std::string_view tag, std::string_view text, int64_t step) {
  const Message plugin = Message().bytes(plugin_data::kPluginName, "text");
  const Message about = Message()
                            .message(metadata::kPluginData, plugin)
                            .integer(metadata::kDataClass, metadata::kDataClassTensor);
  const Message one = Message().message(tensor_shape::kDim, Message().integer(tensor_shape::kDimSize, 1));
  const Message strings = Message()
                              .integer(tensor::kDtype, tensor::kString)
                              .message(tensor::kShape, one)
                              .bytes(tensor::kStringValue, text);
  const Message entry =
      Message().bytes(value::kTag, tag).message(value::kTensor, strings).message(value::kMetadata, about);
  add_record(summary_of(entry, step).text());
}

// TFRecord: length, checksum of the length, bytes, checksum of the bytes.
void EventWriter::add_record(std::string_view event) {
  const std::string length = little_endian(event.size(), 8);
  pending_ += length;
  pending_ += little_endian(masked_crc32c(length), 4);
  pending_ += event;
  pending_ += little_endian(masked_crc32c(event), 4);
  if (pending_.size() >= kPendingBytes) flush();
}

void EventWriter::flush() {
  size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t written = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (written < 0) {
      if (errno == EINTR) continue;
      pending_.erase(0, done);
      fail("write", path_);
    }
    done += static_cast<size_t>(written);
  }
  pending_.clear();
}

}  // namespace qkv::io
