#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/explain/image_attention.h"
#include "qkv/explain/page_parts.h"
#include "qkv/explain/pages.h"
#include "qkv/explain/palette.h"

namespace qkv::explain {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSmallImage = 128 * 128;  // pixels: smaller images are stored losslessly

void add_float(float value, std::string& bytes) {
  const auto bits = std::bit_cast<uint32_t>(value);
  for (const int shift : {0, 8, 16, 24})
    bytes += static_cast<char>(static_cast<unsigned char>(bits >> shift));
}

// Packs rows of weights, because a page holds millions. For each row: the weights of the `own` tokens and the
// maximum over the patches as floats, then the patches' shares of that maximum, in units of 1/255 (1 byte) or
// 1/65535 (2 bytes, little-endian).
std::string packed(const Tensor& weights, int64_t own, int bytes) {
  const long units = (1L << (8 * bytes)) - 1;
  std::string text;
  for (int64_t row = 0; row < weights.rows(); ++row) {
    const float* from = weights.data() + row * weights.row_stride();
    const float top = *std::max_element(from + own, from + weights.cols());
    for (int64_t i = 0; i < own; ++i) add_float(from[i], text);
    add_float(top, text);
    for (int64_t i = own; i < weights.cols(); ++i) {
      const double share = top > 0 ? std::clamp(double{from[i]} / double{top}, 0.0, 1.0) : 0.0;
      const auto level = static_cast<unsigned>(std::lround(share * static_cast<double>(units)));
      for (int k = 0; k < bytes; ++k) text += static_cast<char>(static_cast<unsigned char>(level >> (8 * k)));
    }
  }
  return base64(text);
}

std::string image_uri(const data::Image& image) {
  const bool small = image.height * image.width <= kSmallImage;
  return small ? "data:image/png;base64," + base64(data::encode_png(image))
               : "data:image/jpeg;base64," + base64(data::encode_jpeg(image));
}

std::string page_data(const ImageAttentionReport& report) {
  Json data = {{"title", report.title},
               {"model", report.model},
               {"image", image_uri(report.image)},
               {"height", report.image.height},
               {"width", report.image.width},
               {"rows", report.rows},
               {"columns", report.columns},
               {"own", report.own_tokens},
               {"heads", report.layers.front().dim(0)},
               {"palette", kHeat},
               {"labels", Json::array()},
               {"layers", Json::array()},
               {"rollout", Json::array()}};
  for (const auto& [label, probability] : report.labels) {
    if (data["labels"].size() == 5) break;
    data["labels"].push_back({label, probability});
  }
  const int64_t own = std::ssize(report.own_tokens);
  for (const Tensor& layer : report.layers) data["layers"].push_back(packed(layer, own, 1));
  // Each patch dominates its own rollout, so it gets two bytes; there are few rollouts.
  for (const Tensor& rollout : attention_rollout(report.layers)) {
    data["rollout"].push_back(packed(rollout, own, 2));
  }
  return inert(data.dump(-1, ' ', true, Json::error_handler_t::replace));
}

}  // namespace

std::string to_html(const ImageAttentionReport& report) {
  report.validate();
  return page_of({.title = report.title,
                  .markup = pages::kImageHtml,
                  .style = std::string(pages::kImageCss),
                  .data = page_data(report),
                  .script = std::string(pages::kImageJs)});
}

}  // namespace qkv::explain
