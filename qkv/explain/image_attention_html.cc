#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/explain/attention_page.h"
#include "qkv/explain/image_attention.h"
#include "qkv/explain/image_page.h"
#include "qkv/explain/page_parts.h"
#include "qkv/explain/palette.h"

namespace qkv::explain {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSmallPicture = 128 * 128;  // pixels: smaller ones are kept exactly

// Rows of weights as bytes of 1/255 of the row's largest, and behind them those largest as little-endian
// floats: a page of a large model holds millions of weights.
std::string packed(const Tensor& weights) {
  std::string levels, tops;
  for (int64_t row = 0; row < weights.rows(); ++row) {
    const float* from = weights.data() + row * weights.row_stride();
    const float top = *std::max_element(from, from + weights.cols());
    for (int64_t i = 0; i < weights.cols(); ++i) {
      const float share = top > 0 ? std::clamp(from[i] / top, 0.0f, 1.0f) : 0.0f;
      levels += static_cast<char>(static_cast<unsigned char>(std::lround(share * 255)));
    }
    const auto bits = std::bit_cast<uint32_t>(top);
    for (const int shift : {0, 8, 16, 24})
      tops += static_cast<char>(static_cast<unsigned char>(bits >> shift));
  }
  return base64(levels + tops);
}

std::string picture_uri(const data::Image& picture) {
  const bool small = picture.height * picture.width <= kSmallPicture;
  return small ? "data:image/png;base64," + base64(data::encode_png(picture))
               : "data:image/jpeg;base64," + base64(data::encode_jpeg(picture));
}

std::string page_data(const ImageAttentionReport& report) {
  Json data = {{"title", report.title},
               {"model", report.model},
               {"picture", picture_uri(report.picture)},
               {"height", report.picture.height},
               {"width", report.picture.width},
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
  for (const Tensor& layer : report.layers) data["layers"].push_back(packed(layer));
  for (const Tensor& rollout : attention_rollout(report.layers)) data["rollout"].push_back(packed(rollout));
  return inert(data.dump(-1, ' ', true, Json::error_handler_t::replace));
}

}  // namespace

std::string to_html(const ImageAttentionReport& report) {
  report.validate();
  return filled(kImagePageMarkup, {{"TITLE", html_text(report.title.empty() ? "Attention" : report.title)},
                                   {"STYLE", concat(kPageStyle, kImagePageStyle)},
                                   {"DATA", page_data(report)},
                                   {"SCRIPT", concat(kPageCommon, kImagePageScript)}});
}

}  // namespace qkv::explain
