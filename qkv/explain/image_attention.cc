#include "qkv/explain/image_attention.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/data/image_limits.h"
#include "qkv/explain/head_statistics.h"
#include "qkv/explain/page_parts.h"
#include "qkv/explain/report_file.h"

namespace qkv::explain {
namespace {

// (mean over heads + I) / 2, rows normalised to sum to 1, in double precision: [tokens, tokens].
std::vector<double> step_of(const Tensor& layer) {
  const int64_t heads = layer.dim(0), tokens = layer.dim(1);
  std::vector<double> step(static_cast<size_t>(tokens * tokens));
  for (int64_t query = 0; query < tokens; ++query) {
    double* row = step.data() + query * tokens;
    for (int64_t head = 0; head < heads; ++head) {
      const float* weights = layer.data() + (head * tokens + query) * layer.row_stride();
      for (int64_t key = 0; key < tokens; ++key)
        row[key] += double{weights[key]} / static_cast<double>(heads);
    }
    row[query] += 1;
    double sum = 0;
    for (int64_t key = 0; key < tokens; ++key) sum += row[key];
    for (int64_t key = 0; key < tokens; ++key) row[key] /= sum;
  }
  return step;
}

}  // namespace

std::vector<Tensor> attention_rollout(std::span<const Tensor> layers) {
  std::vector<Tensor> rollouts;
  std::vector<double> below;
  for (const Tensor& layer : layers) {
    const int64_t tokens = layer.rank() == 3 ? layer.dim(2) : 0;
    if (tokens == 0 || layer.dim(0) == 0 || layer.dim(1) != tokens ||
        (!below.empty() && std::ssize(below) != tokens * tokens)) {
      throw ShapeError(concat("rollout: expected layers [heads, tokens, tokens] with the same tokens, found ",
                              layer.shape()));
    }
    const std::vector<double> step = step_of(layer);
    std::vector<double> here(step.size());
    parallel_for(tokens, 8, [&](int64_t begin, int64_t end) {
      for (int64_t query = begin; query < end; ++query) {
        double* to = here.data() + query * tokens;
        for (int64_t over = 0; over < tokens; ++over) {
          const double weight = step[static_cast<size_t>(query * tokens + over)];
          if (below.empty()) {
            to[over] = weight;
            continue;
          }
          const double* from = below.data() + over * tokens;
          for (int64_t key = 0; key < tokens; ++key) to[key] += weight * from[key];
        }
      }
    });
    below = std::move(here);
    Tensor rollout = Tensor::empty({tokens, tokens});
    std::ranges::transform(below, rollout.data(), [](double x) { return static_cast<float>(x); });
    rollouts.push_back(rollout);
  }
  return rollouts;
}

void ImageAttentionReport::validate() const {
  if (layers.empty()) throw UsageError("attention report: expected at least one layer, found none");
  constexpr int64_t kMaxPatches = 1 << 20;
  if (rows < 1 || columns < 1 || rows > kMaxPatches / columns || own_tokens.empty() || image.pixels.empty()) {
    throw UsageError(concat("attention report: expected an image, a token for all of it and patches, found ",
                            image.height, " x ", image.width, " pixels, ", own_tokens.size(), " tokens and ",
                            rows, " x ", columns, " patches"));
  }
  data::require_pixels(image);
  const int64_t heads = layers.front().rank() == 3 ? std::max<int64_t>(layers.front().dim(0), 1) : 1;
  const Shape expected{heads, tokens(), tokens()};
  for (size_t i = 0; i < layers.size(); ++i) {
    const Tensor& weights = layers[i];
    if (!weights.defined() || weights.dtype() != DType::f32 || weights.shape() != expected) {
      throw ShapeError(concat("attention report, layer ", i,
                              ": expected f32 weights [heads, tokens, tokens] = ", expected,
                              ", according to patches and first layer, found ",
                              weights.defined() ? concat(qkv::name_of(weights.dtype()), " ", weights.shape())
                                                : std::string("none")));
    }
    if (!std::ranges::all_of(weights.clone().values(), [](float w) { return std::isfinite(w); })) {
      throw NumericError(
          concat("attention report, layer ", i, ": expected finite weights, found NaN or an infinity"));
    }
  }
}

ImageAttentionReport image_attention_report(const pipelines::ImageAttention& captured,
                                            const std::string& title, const std::string& model) {
  ImageAttentionReport report{.title = title,
                              .model = model,
                              .image = captured.image,
                              .region = captured.region,
                              .rows = captured.patches.height,
                              .columns = captured.patches.width,
                              .own_tokens = captured.own_tokens,
                              .layers = {},
                              .labels = captured.labels};
  for (const search::CapturedAttention& attention : captured.attentions) {
    report.layers.push_back(attention.weights);
  }
  return report;
}

std::string to_json(const ImageAttentionReport& report) {
  report.validate();
  using Json = nlohmann::ordered_json;
  Json head = {{"title", report.title},
               {"model", report.model},
               {"own_tokens", report.own_tokens},
               {"patches", {{"rows", report.rows}, {"columns", report.columns}}},
               {"region",
                {{"top", report.region.top},
                 {"left", report.region.left},
                 {"height", report.region.height},
                 {"width", report.region.width}}},
               {"labels", Json::array()}};
  for (const auto& [label, probability] : report.labels) {
    head["labels"].push_back({{"label", label}, {"probability", probability}});
  }
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();  // remove the closing brace; the layers follow
  text += ",\"layers\":[";
  for (size_t i = 0; i < report.layers.size(); ++i) {
    text += concat(i > 0 ? "," : "", "\n{\"layer\":", i, ",\"heads\":", json_numbers(report.layers[i]),
                   ",\"statistics\":", to_json(head_statistics(report, report.layers[i])), "}");
  }
  text += "],\"rollout\":[";
  for (const Tensor& rollout : attention_rollout(report.layers)) {
    if (text.back() != '[') text += ',';
    const std::string alone = json_numbers(rollout.reshape({1, rollout.dim(0), rollout.dim(1)}));
    text += concat("\n", alone.substr(1, alone.size() - 2));
  }
  return text + "]}\n";
}

void write_report(const ImageAttentionReport& report, const std::filesystem::path& path) {
  write_as_named(report, path);
}

}  // namespace qkv::explain
