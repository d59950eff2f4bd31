#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/explain/attention_report.h"
#include "qkv/explain/page_parts.h"
#include "qkv/explain/pages.h"
#include "qkv/explain/palette.h"

namespace qkv::explain {
namespace {

using Json = nlohmann::ordered_json;

constexpr float kUnitsPerOne = 10000;  // weights in the page are integers in units of 1/10000

// Written by hand: there may be millions of weights, and a JSON tree takes 16 bytes for each.
std::string packed_weights(const Tensor& weights) {
  std::string text = "[";
  for (int64_t head = 0; head < weights.dim(0); ++head) {
    text += head ? ",[" : "[";
    for (int64_t query = 0; query < weights.dim(1); ++query) {
      const float* row = weights.data() + (head * weights.dim(1) + query) * weights.row_stride();
      for (int64_t key = 0; key < weights.dim(2); ++key) {
        if (query + key > 0) text += ',';
        text += std::to_string(std::lround(row[key] * kUnitsPerOne));
      }
    }
    text += ']';
  }
  return text + "]";
}

Json ramp_json(const Ramp& ramp) {
  Json colours = Json::array();
  for (const uint32_t colour : ramp) colours.push_back(colour);
  return colours;
}

std::string page_data(const AttentionReport& report) {
  Json head = {{"title", report.title},
               {"model", report.model},
               {"source", report.source_tokens},
               {"target", report.target_tokens},
               {"inputs", report.keys(Part::decoder)},
               {"special", report.source_special},
               {"target_special", report.target_special},
               {"second", report.second_text ? Json(*report.second_text) : Json(nullptr)},
               {"alignment", report.alignment},
               {"tile", report.tile},
               {"tokens", report.tiled_tokens},
               {"opens", Json::object()},
               {"palette", Json::object()}};
  for (const AttentionLayer& layer : report.layers) {
    if (head["opens"].contains(name_of(layer.part))) continue;
    const HeadPlace place = most_informative_head(report, layer.part);
    head["opens"][name_of(layer.part)] = {place.layer, place.head};
  }
  for (const Part part : {Part::encoder, Part::decoder, Part::cross}) {
    const Palette palette = palette_of(part);
    head["palette"][name_of(part)] = {{"light", ramp_json(palette.light)}, {"dark", ramp_json(palette.dark)}};
  }
  std::string text = inert(head.dump(-1, ' ', true, Json::error_handler_t::replace));
  text.pop_back();  // remove the closing brace; the layers follow
  text += ",\"layers\":[";
  for (const AttentionLayer& layer : report.layers) {
    if (text.back() == '}') text += ',';
    text += concat("\n{\"part\":\"", name_of(layer.part), "\",\"layer\":", layer.index,
                   ",\"heads\":", packed_weights(layer.weights),
                   ",\"statistics\":", to_json(head_statistics(report, layer)), "}");
  }
  return text + "]}";
}

}  // namespace

std::string to_html(const AttentionReport& report) {
  report.validate();
  return page_of({.title = report.title,
                  .markup = pages::kAttentionHtml,
                  .style = "",
                  .data = page_data(report),
                  .script = concat(pages::kAttentionDrawingJs, pages::kAttentionJs)});
}

}  // namespace qkv::explain
