#pragma once
// TensorBoard event files, as written by TensorFlow.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace qkv::io {

// Writes a new event file into a folder. TensorBoard shows all event files of a folder as one run, so a
// resumed run opens another writer on the same folder. Not thread-safe.
class EventWriter {
 public:
  // Creates the folder if it is missing and opens events.out.tfevents.<seconds>.<host>.<process>.<count> in
  // it. With `resume_step`, TensorBoard discards points of earlier files from that step on. Throws IoError
  // naming the folder or file.
  explicit EventWriter(const std::filesystem::path& folder, std::optional<int64_t> resume_step = {});
  // Flushes, ignoring errors; call flush() to see them.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Adds a point to the curve `tag`. TensorBoard stores single precision.
  void scalar(std::string_view tag, double value, int64_t step);
  // Adds a Markdown text under `tag`, in UTF-8.
  void text(std::string_view tag, std::string_view text, int64_t step);

  // Passes all buffered data to the operating system; also happens automatically from time to time. Throws
  // IoError naming the file.
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void add_record(std::string_view event);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string pending_;
};

}  // namespace qkv::io
