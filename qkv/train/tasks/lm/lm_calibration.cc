#include "qkv/train/tasks/lm/lm_calibration.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/data/batches.h"
#include "qkv/kernels/matmul.h"
#include "qkv/ops/general/calibrated.h"
#include "qkv/ops/linear_inputs.h"
#include "qkv/ops/quantize.h"

namespace qkv::train {
namespace {

using Key = const void*;  // a weight's values

Key key_of(const Tensor& values) { return values.as_bytes().data(); }

// Windows of at most this length: inputs of distant positions are alike.
constexpr int64_t kWindow = 1024;

std::vector<data::TokenWindow> windows_of(const models::LanguageModel& model,
                                          const data::TokenDocuments& documents, int64_t tokens) {
  const int64_t length = std::min(kWindow, model.config().max_positions);
  std::vector<data::TokenWindow> windows = data::evaluation_windows(documents, length, length);
  int64_t read = 0;
  const auto end = std::ranges::find_if(windows, [&](const data::TokenWindow& window) {
    read += window.tokens;
    return read > tokens;
  });
  windows.erase(std::max(end, windows.begin() + 1), windows.end());
  return windows;
}

void read_windows(const models::LanguageModel& model, const data::TokenDocuments& documents,
                  const std::vector<data::TokenWindow>& windows, int64_t batch_tokens) {
  std::vector<int64_t> costs;
  for (const data::TokenWindow& window : windows) costs.push_back(window.tokens);
  for (const data::Batch& batch : data::sequential_batches(costs, batch_tokens)) {
    std::vector<data::TokenWindow> some;
    for (const int64_t item : batch.items) some.push_back(windows[static_cast<size_t>(item)]);
    nn::ForwardContext context;
    model(data::window_rows(documents, some).inputs.ragged(), context);
  }
}

}  // namespace

void calibrate(const models::LanguageModel& model, const data::TokenDocuments& documents,
               const LmCalibration& options) {
  if (!in_blocks(options.dtype))
    throw UsageError(
        concat("calibrate: expected a dtype of blocks, such as q4_0, found ", name_of(options.dtype)));
  std::map<Key, nn::Parameter> waiting;
  std::vector<nn::Parameter> plain;
  model.visit([&](const std::string& name, const nn::Parameter& parameter) {
    if (!parameter.allows_quantized()) return;
    const Tensor& values = parameter.variable.value();
    if (values.dtype() != DType::f32)
      throw UsageError(concat("calibrate: ", name, ": expected f32, found ", name_of(values.dtype())));
    const bool fits = values.dim(1) % layout_of(options.dtype).block == 0;
    if (fits && !parameter.of_tokens) {
      waiting.emplace(key_of(values), parameter);
    } else {
      plain.push_back(parameter);
    }
  });
  const auto all = std::ssize(waiting);
  const std::vector<data::TokenWindow> windows = windows_of(model, documents, options.tokens);
  std::mutex mutex;
  while (!waiting.empty()) {
    // X^T X in the order in which the model reaches the matrices; those that share an input have one.
    std::vector<std::pair<std::vector<Key>, Tensor>> grams;
    std::map<Key, size_t> place;
    size_t bytes = 0;
    bool full = false;
    {
      const LinearInputs inputs([&](const Tensor& x, const std::vector<Weight>& weights) {
        const std::lock_guard lock(mutex);
        if (x.dim(0) == 0) return;
        const Key first = key_of(weights[0].values());
        auto found = place.find(first);
        if (found == place.end()) {
          if (full || !waiting.contains(first)) return;
          const int64_t size = x.dim(1);
          const size_t more = bytes_of(DType::f32, size * size);
          full = !grams.empty() && bytes + more > options.most_bytes;
          if (full) return;
          bytes += more;
          std::vector<Key> keys;
          for (const Weight& weight : weights) keys.push_back(key_of(weight.values()));
          grams.emplace_back(keys, Tensor::zeros({size, size}));
          found = place.emplace(first, grams.size() - 1).first;
        }
        Tensor& gram = grams[found->second].second;
        kernels::matmul_transposed_a(x, x, gram, Accumulate::yes);
      });
      read_windows(model, documents, windows, options.batch_tokens);
    }
    if (grams.empty()) break;
    for (const auto& [keys, gram] : grams) {
      for (const Key key : keys) {
        const auto found = waiting.find(key);
        if (found == waiting.end()) continue;
        const nn::Parameter parameter = found->second;
        waiting.erase(found);
        parameter.set_value(quantize_calibrated(parameter.variable.value(), gram, options.dtype));
        if (options.on_progress) options.on_progress(all - std::ssize(waiting), all);
      }
    }
  }
  for (const auto& [key, parameter] : waiting) plain.push_back(parameter);
  for (const nn::Parameter& parameter : plain)
    parameter.set_value(to_dtype(parameter.weight().value(), parameter.dtype_in(options.dtype)));
}

}  // namespace qkv::train
