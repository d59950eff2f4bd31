#pragma once
// Common base of the text encoder pipelines: tokenizes texts and runs the encoder.

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

// The encoder's input. A pipeline whose finish() needs more data derives from it.
struct EncoderRequest {
  text::Encoding encoding;
  std::string error;  // why the text cannot be read; encode() then skips it
};

// Tokens per batch: affects memory and speed, not results.
inline constexpr int64_t kEncoderBatchTokens = 4096;

// Throws UsageError unless all lists of the encoding are of equal length, and ShapeError unless hidden is
// [tokens, d_model].
void require_encoded(const EncoderRequest& request, const Tensor& hidden, int64_t d_model);

// Makes of an encoding what the model reads: up to the token that ends a text (TextEncoderConfig::end_id), or
// with pad tokens. Returns why the model cannot read it; empty: it can.
std::string set_end(text::Encoding& encoding, const models::TextEncoderConfig& config,
                    const text::Tokenizer& tokenizer);

// Runs the encoder over requests, possibly of different pipelines, in batches of similar lengths, and calls
// use(index of the request, hidden states [tokens, d_model]) for each request without an error. Hidden states
// do not depend on the other requests. Throws UsageError for batch_tokens below 1.
void encode(const models::TextEncoder& model, std::span<const EncoderRequest* const> requests,
            const std::function<void(size_t request, const Tensor& hidden)>& use,
            int64_t batch_tokens = kEncoderBatchTokens);

// Base class of a pipeline. Const: safe to use from several threads. A pipeline adds
//   Request prepare(text, options) const;
//   Result finish(const Request& request, const Tensor& hidden) const;
//   std::vector<Result> operator()(texts, options) const;
// where operator() calls run() with the other two.
class TextEncoderPipeline {
 public:
  // Throws UsageError for a null handle.
  explicit TextEncoderPipeline(std::shared_ptr<const LoadedTextEncoder> encoder)
      : encoder_(required(std::move(encoder))) {}
  // Throws the errors of open_text_encoder().
  explicit TextEncoderPipeline(const std::filesystem::path& folder, const models::LoadOptions& options = {})
      : encoder_(open_text_encoder(folder, options)) {}

  const models::TextEncoder& model() const { return *encoder_->model; }
  const text::Tokenizer& tokenizer() const { return encoder_->tokenizer; }
  const std::shared_ptr<const LoadedTextEncoder>& encoder() const { return encoder_; }

 protected:
  // Tokenizes a text; errors are stored in the request.
  EncoderRequest read(std::string_view text, const text::EncodeOptions& options = {}) const;
  // Tokenizes the text after the prompt, and cuts it to max_length tokens, special tokens included.
  EncoderRequest read_after(std::string_view prompt, std::string_view text,
                            std::optional<int64_t> max_length) const;
  // Token ids as they are; an empty list, an id beyond the vocabulary and a length beyond the model's are
  // errors, stored in the request.
  EncoderRequest read(std::span<const int32_t> ids) const;
  // Tokenizes a pair of texts that the model reads as one input.
  EncoderRequest read(std::string_view first, std::string_view second,
                      const text::EncodeOptions& options = {}) const;
  // Tokens as a request, with an error if the model cannot read them.
  EncoderRequest checked(text::Encoding encoding) const;

  // The same of items that are several requests each: prepare(i) gives those of item i, finish(request,
  // hidden) the result of one, merge(results) that of the item. Requests exist for some items at a time.
  template <class Prepare, class Finish, class Merge>
  auto run_parts(size_t items, int64_t batch_tokens, const Prepare& prepare, const Finish& finish,
                 const Merge& merge) const {
    using Part =
        std::invoke_result_t<Finish, typename std::invoke_result_t<Prepare, size_t>::value_type, Tensor>;
    std::vector<std::invoke_result_t<Merge, std::span<Part>>> results;
    results.reserve(items);
    const int64_t enough = std::max<int64_t>(batch_tokens, 1 << 16);  // tokens, in batches of similar lengths
    const size_t block = 16 * static_cast<size_t>(threads());
    std::vector<std::invoke_result_t<Prepare, size_t>> requests;
    for (size_t next = 0; next < items;) {
      requests.clear();
      for (int64_t tokens = 0; next < items && tokens < enough;) {
        const size_t begin = requests.size(), count = std::min(items - next, block);
        requests.resize(begin + count);
        parallel_for(static_cast<int64_t>(count), 1, [&](int64_t from, int64_t to) {
          for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i)
            requests[begin + i] = prepare(next + i);
        });
        next += count;
        for (size_t i = begin; i < requests.size(); ++i) {
          for (const EncoderRequest& request : requests[i]) tokens += std::ssize(request.encoding.ids);
        }
      }
      std::vector<std::vector<Part>> parts(requests.size());
      std::vector<const EncoderRequest*> pointers;
      std::vector<std::pair<size_t, size_t>> places;  // of each pointer: item and part
      for (size_t i = 0; i < requests.size(); ++i) {
        parts[i].resize(requests[i].size());
        for (size_t k = 0; k < requests[i].size(); ++k) {
          parts[i][k].error = requests[i][k].error;
          pointers.push_back(&requests[i][k]);
          places.emplace_back(i, k);
        }
      }
      encode(
          model(), pointers,
          [&](size_t p, const Tensor& hidden) {
            const auto [i, k] = places[p];
            try {
              parts[i][k] = finish(requests[i][k], hidden);
            } catch (const Error& error) {
              parts[i][k].error = error.what();
            }
          },
          batch_tokens);
      for (std::vector<Part>& own : parts) results.push_back(merge(std::span(own)));
    }
    return results;
  }

  // The same of texts that are one request each.
  template <class Prepare, class Finish>
  auto run(std::span<const std::string> texts, int64_t batch_tokens, const Prepare& prepare,
           const Finish& finish) const {
    return run_parts(
        texts.size(), batch_tokens, [&](size_t i) { return std::array{prepare(texts[i])}; }, finish,
        [](auto results) { return std::move(results.front()); });
  }

 private:
  std::shared_ptr<const LoadedTextEncoder> encoder_;
};

}  // namespace qkv::pipelines
