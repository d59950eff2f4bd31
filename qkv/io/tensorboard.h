#pragma once
// Curves for TensorBoard: event files, as TensorFlow writes them.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace qkv::io {

// Writes one new event file into a folder. TensorBoard shows all event files of a folder as one run, so a
// resumed run opens a new writer on the same folder. Not for use by several threads at once.
class EventWriter {
 public:
  // Makes the folder where it is missing and opens events.out.tfevents.<seconds>.<host>.<process>.<count> in
  // it. With `resume_step`, TensorBoard forgets what earlier files of the folder say of that step and later
  // ones. Throws IoError naming the folder or file.
  explicit EventWriter(const std::filesystem::path& folder, std::optional<int64_t> resume_step = {});
  // Flushes; a failure is lost here, so call flush() where it matters.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // One point of the curve `tag`. TensorBoard keeps single precision.
  void scalar(std::string_view tag, double value, int64_t step);
  // A text (Markdown) under `tag`, in UTF-8.
  void text(std::string_view tag, std::string_view text, int64_t step);

  // Hands everything to the operating system. Happens by itself now and then. Throws IoError naming the file.
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void add_record(std::string_view event);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string pending_;
};

}  // namespace qkv::io
