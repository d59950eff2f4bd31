#include "qkv/text/training/line_blocks.h"

#include <cstdio>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"

namespace qkv::text {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kBlockBytes = size_t{1} << 20;
constexpr size_t kMaxLineBytes = size_t{1} << 30;  // positions in a line have 32 bits

std::string hexadecimal(char byte) {
  char text[8];
  std::snprintf(text, sizeof(text), "0x%02X", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return text;
}

}  // namespace

LineBlocks::LineBlocks(std::vector<std::filesystem::path> inputs, bool skip_bad_utf8)
    : inputs_(std::move(inputs)), skip_bad_utf8_(skip_bad_utf8) {}

bool LineBlocks::open_next_file() {
  if (file_ == inputs_.size()) return false;
  reader_ = std::make_unique<TextFile>(inputs_[file_++]);
  held_.clear();
  ended_ = false;
  file_lines_ = 0;
  return true;
}

void LineBlocks::add_line(std::string_view line, std::string& block) {
  if (file_lines_++ == 0 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (line.empty()) return;
  if (const auto bad = first_bad_utf8(line)) {
    if (!skip_bad_utf8_) {
      throw DataError(concat(reader_->name(), ", line ", file_lines_, ", byte ", *bad + 1,
                             ": expected UTF-8, found the byte ", hexadecimal(line[*bad]),
                             " that is invalid there"));
    }
    ++skipped_;
    return;
  }
  ++lines_;
  block += line;
}

// Moves the whole lines of `held_` to the block; at the end of the file, also an unfinished one.
void LineBlocks::take_lines(std::string& block) {
  const std::string_view text = held_;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = text.find('\n', at);
    if (end == text.npos && !ended_) break;
    const size_t length = end == text.npos ? text.size() - at : end + 1 - at;
    add_line(text.substr(at, length), block);
    at += length;
  }
  held_.erase(0, at);
}

bool LineBlocks::next(std::string& block) {
  block.clear();
  while (block.empty()) {
    if (!reader_ && !open_next_file()) return false;
    // Here `held_` is empty or the beginning of a line.
    for (bool line_end = false; held_.size() < kBlockBytes || !line_end;) {
      if (held_.size() >= kMaxLineBytes) {
        throw DataError(concat(reader_->name(), ", line ", file_lines_ + 1,
                               ": expected lines of less than 1 GiB, found a longer one"));
      }
      const size_t before = held_.size();
      held_.resize(before + kBlockBytes);
      const size_t count = reader_->read(held_.data() + before, kBlockBytes);
      held_.resize(before + count);
      ended_ = count == 0;
      if (ended_) break;
      line_end = line_end || held_.find('\n', before) != held_.npos;
    }
    take_lines(block);
    if (ended_) reader_.reset();
  }
  return true;
}

}  // namespace qkv::text
