#include "qkv/pipelines/speech/word_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"
#include "qkv/base/parallel.h"
#include "qkv/tensor/storage.h"
#include "qkv/text/lines.h"

namespace qkv::pipelines {
namespace {

constexpr int64_t kMedianWidth = 7;
constexpr const char* kReplacement = "\xEF\xBF\xBD";
// Languages without spaces between words.
constexpr std::array<std::string_view, 6> kWithoutSpaces{"zh", "ja", "th", "lo", "my", "yue"};
// Joined with the word after them, and with the word before.
constexpr std::string_view kOpening = "\"'“¿([{-", kClosing = "\"'.。,，!！?？:：”)]}、";
constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

// Whether a part of a text, from this byte on, ends within a character: the text then has the character where
// the part has U+FFFD. Bytes that are no character are U+FFFD in both.
bool ends_within_character(std::string_view part, std::string_view text, size_t begin) {
  const size_t at = part.find(kReplacement);
  return at != part.npos && (begin + at >= text.size() || !text.substr(begin + at).starts_with(kReplacement));
}

// Tokens that together spell whole characters.
std::vector<WordTokens> whole_characters(const text::Tokenizer& tokenizer, std::span<const int32_t> ids) {
  const std::string whole = tokenizer.decode(ids);
  std::vector<WordTokens> parts;
  size_t begin = 0, bytes = 0;  // of the next part
  for (size_t end = 1; end <= ids.size(); ++end) {
    std::string text = tokenizer.decode(ids.subspan(begin, end - begin));
    if (ends_within_character(text, whole, bytes) && end < ids.size()) continue;
    bytes += text.size();
    parts.push_back({std::move(text), static_cast<int64_t>(begin), static_cast<int64_t>(end)});
    begin = end;
  }
  return parts;
}

void join(WordTokens& first, const WordTokens& second) {
  first.text += second.text;
  first.end = second.end;
}

void join_punctuation(std::vector<WordTokens>& words) {
  std::vector<WordTokens> joined;
  bool open = false;  // the last word is opening punctuation or a space, which belong to the next
  for (const WordTokens& word : words) {
    const std::string_view mark = text::trimmed(word.text, " ");
    const bool closes = !mark.empty() && !word.text.starts_with(' ') && kClosing.find(mark) != mark.npos;
    if (!joined.empty() && (open || (closes && !joined.back().text.ends_with(' ')))) {
      join(joined.back(), word);
    } else {
      joined.push_back(word);
    }
    open = word.text.starts_with(' ') && kOpening.find(mark) != mark.npos;
  }
  words = std::move(joined);
}

// Each row's medians of kMedianWidth neighbours, mirrored at its ends.
void median_filter(Tensor& weights) {
  const int64_t width = weights.cols(), half = kMedianWidth / 2;
  if (width <= half) return;
  parallel_for(weights.rows(), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> padded(static_cast<size_t>(width + 2 * half));
    for (int64_t row = begin; row < end; ++row) {
      float* values = weights.data() + row * width;
      for (int64_t i = -half; i < width + half; ++i) {
        const int64_t from = i < 0 ? -i : i >= width ? 2 * (width - 1) - i : i;
        padded[static_cast<size_t>(i + half)] = values[from];
      }
      for (int64_t i = 0; i < width; ++i) {
        std::array<float, kMedianWidth> near{};
        std::copy_n(padded.begin() + i, kMedianWidth, near.begin());
        std::nth_element(near.begin(), near.begin() + half, near.end());
        values[i] = near[static_cast<size_t>(half)];
      }
    }
  });
}

// Divides each column's deviation from its mean by its standard deviation over the rows.
void normalize_columns(Tensor& weights) {
  const int64_t rows = weights.rows(), cols = weights.cols();
  for (int64_t c = 0; c < cols; ++c) {
    double mean = 0, square = 0;
    for (int64_t r = 0; r < rows; ++r) mean += weights.data()[r * cols + c];
    mean /= static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      const double away = weights.data()[r * cols + c] - mean;
      square += away * away;
    }
    const double deviation = std::sqrt(square / static_cast<double>(rows));
    for (int64_t r = 0; r < rows; ++r) {
      float& value = weights.data()[r * cols + c];
      value = deviation > 0 ? static_cast<float>((value - mean) / deviation) : 0;
    }
  }
}

// The first `length` weights of each row, with a sum of 1.
Tensor cropped(const Tensor& weights, int64_t head, int64_t length) {
  const int64_t queries = weights.dim(1), keys = weights.dim(2);
  Tensor rows = Tensor::empty({queries, length});
  for (int64_t q = 0; q < queries; ++q) {
    const float* from = weights.data() + (head * queries + q) * keys;
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) sum += from[k];
    for (int64_t k = 0; k < length; ++k)
      rows.data()[q * length + k] = sum > 0 ? static_cast<float>(from[k] / sum) : 0;
  }
  return rows;
}

bool aligns(const models::SpeechModel& model, int64_t layer, int64_t head) {
  if (model.alignment_heads.empty()) return layer >= model.config.decoder_layers / 2;
  return std::ranges::count(model.alignment_heads, std::pair(layer, head)) > 0;
}

// The layer in "decoder.layers.1.encoder_attn"; none for self-attention.
std::optional<int64_t> cross_layer(std::string_view name) {
  constexpr std::string_view kEnd = ".encoder_attn";
  if (!name.ends_with(kEnd)) return std::nullopt;
  name.remove_suffix(kEnd.size());
  int64_t layer = 0;
  parse_field("layer", name.substr(name.rfind('.') + 1), layer);
  return layer;
}

}  // namespace

std::vector<WordTokens> split_words(const text::Tokenizer& tokenizer, std::span<const int32_t> ids,
                                    const std::string& code) {
  std::vector<WordTokens> words;
  const bool spaces = std::ranges::count(kWithoutSpaces, code) == 0;
  for (WordTokens& part : whole_characters(tokenizer, ids)) {
    const std::string_view mark = text::trimmed(part.text, " ");
    const bool punctuation = !mark.empty() && kPunctuation.find(mark) != mark.npos;
    if (!spaces || words.empty() || part.text.starts_with(' ') || punctuation) {
      words.push_back(std::move(part));
    } else {
      join(words.back(), part);
    }
  }
  join_punctuation(words);
  return words;
}

std::vector<int64_t> warped_columns(const Tensor& costs) {
  const int64_t rows = costs.rows(), cols = costs.cols();
  enum Step : uint8_t { both, row, column };
  std::vector<Step> steps(static_cast<size_t>(rows * cols));
  std::vector<float> last(static_cast<size_t>(cols)), now(static_cast<size_t>(cols));
  constexpr float kNone = std::numeric_limits<float>::infinity();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const auto at = static_cast<size_t>(c);
      const bool first = r == 0 && c == 0;
      const float from_both = first ? 0 : r > 0 && c > 0 ? last[at - 1] : kNone;
      const float from_row = r > 0 ? last[at] : kNone, from_column = c > 0 ? now[at - 1] : kNone;
      Step step = column;
      float cost = from_column;
      if (first || (from_both < from_row && from_both < from_column)) {
        step = both;
        cost = from_both;
      } else if (from_row < from_both && from_row < from_column) {
        step = row;
        cost = from_row;
      }
      now[at] = cost + costs.data()[r * cols + c];
      steps[static_cast<size_t>(r * cols + c)] = step;
    }
    std::swap(last, now);
  }
  std::vector<int64_t> entered(static_cast<size_t>(rows));
  for (int64_t r = rows - 1, c = cols - 1; r >= 0 && c >= 0;) {
    entered[static_cast<size_t>(r)] = c;
    const Step step = steps[static_cast<size_t>(r * cols + c)];
    if (step != column) --r;
    if (step != row) --c;
  }
  return entered;
}

std::vector<int64_t> token_times(const models::SpeechModel& model, const Tensor& encoded, int64_t length,
                                 std::span<const int32_t> ids, std::span<const int32_t> start) {
  std::vector<int32_t> target(start.begin(), start.end());
  target.push_back(model.tokens.no_timestamps);
  target.insert(target.end(), ids.begin(), ids.end());
  const int64_t first = std::ssize(start), rows = std::ssize(ids) + 1;
  Tensor mean = Tensor::zeros({rows, length});
  int64_t heads = 0;
  nn::ForwardContext context;
  context.observer = [&](const std::string& name, const std::vector<Tensor>& weights) {
    const auto layer = cross_layer(name);
    if (!layer) return;
    Tensor all;  // copied from a device once
    for (int64_t head = 0; head < weights.front().dim(0); ++head) {
      if (!aligns(model, *layer, head)) continue;
      if (!all.defined()) all = to_host(weights.front());
      Tensor own = cropped(all, head, length);
      normalize_columns(own);
      median_filter(own);
      const float* from = own.data() + first * length;
      for (int64_t i = 0; i < rows * length; ++i) mean.data()[i] += from[i];
      ++heads;
    }
  };
  const InferenceMemory inference;
  const nn::Memory memory{Variable(encoded), Offsets::uniform(1, encoded.rows())};
  const std::span<const int32_t> one(target);
  model.transformer->decode(Ragged::from(std::span(&one, 1)), memory, context);
  for (float& value : mean.values()) value /= -static_cast<float>(std::max<int64_t>(heads, 1));
  return warped_columns(mean);
}

}  // namespace qkv::pipelines
