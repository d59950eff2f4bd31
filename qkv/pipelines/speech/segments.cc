#include "qkv/pipelines/speech/segments.h"

#include <algorithm>

namespace qkv::pipelines {

WindowSegments split_segments(std::span<const int32_t> ids, const models::SpeechTokens& tokens,
                              int64_t length) {
  const int32_t first = tokens.first_timestamp();
  const auto is_time = [&](size_t at) { return ids[at] >= first; };
  const auto time = [&](int32_t id) { return std::max<int64_t>(0, id - first); };
  const size_t size = ids.size();
  std::vector<size_t> ends;  // the places after the first timestamp of each pair
  for (size_t i = 0; i + 1 < size; ++i) {
    if (is_time(i) && is_time(i + 1)) ends.push_back(i + 1);
  }
  if (ends.empty()) {
    int64_t end = length;
    const auto last = std::find_if(ids.rbegin(), ids.rend(), [&](int32_t id) { return id >= first; });
    if (last != ids.rend() && *last != first) end = time(*last);
    return {.segments = {{.begin = 0, .end = end, .ids = {ids.begin(), ids.end()}}}, .advance = length};
  }
  const bool single_end = size >= 2 && is_time(size - 1) && !is_time(size - 2);
  if (single_end) ends.push_back(size);
  WindowSegments result{.segments = {}, .advance = length};
  size_t begin = 0;
  for (const size_t end : ends) {
    const auto part = ids.subspan(begin, end - begin);
    result.segments.push_back(
        {.begin = time(part.front()), .end = time(part.back()), .ids = {part.begin(), part.end()}});
    begin = end;
  }
  if (!single_end) result.advance = result.segments.back().end;
  return result;
}

}  // namespace qkv::pipelines
