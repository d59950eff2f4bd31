#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/data/resize.h"
#include "qkv/explain/image_attention.h"
#include "qkv/explain/page_parts.h"
#include "qkv/explain/svg_parts.h"

namespace qkv::explain {
namespace {

constexpr int kShades = 24;  // of a map, without the transparent one
constexpr double kPanelWidth = 132, kGap = 8, kLetters = 54;
constexpr int64_t kImageSide = 320;  // of the embedded image, which is drawn smaller

// The position of one map.
struct Place {
  double x = 0, y = 0, width = 0, height = 0;
};

std::string image_at(const char* symbol, const Place& place) {
  return concat("<use href=\"#", symbol, "\" x=\"", number(place.x), "\" y=\"", number(place.y),
                "\" width=\"", number(place.width), "\" height=\"", number(place.height), "\"/>\n");
}

// The greyscale image with a heat overlay; patches of equal shade form one path.
std::string draw_map(const std::vector<float>& weights, int64_t rows, int64_t columns, const Place& place) {
  const auto [low, top] = std::ranges::minmax(weights);
  std::array<std::string, kShades + 1> paths;
  for (int64_t y = 0; y < rows; ++y) {
    const auto shade_at = [&, low = double{low}, span = double{top} - double{low}](int64_t x) {
      const double above = double{weights[static_cast<size_t>(y * columns + x)]} - low;
      return static_cast<size_t>(std::lround((span > 0 ? above / span : 0.5) * kShades));
    };
    for (int64_t x = 0; x < columns;) {
      const size_t shade = shade_at(x);
      int64_t run = 1;
      while (x + run < columns && shade_at(x + run) == shade) ++run;
      paths[shade] += concat("M", x, " ", y, "h", run, "v1h-", run, "z");
      x += run;
    }
  }
  std::string svg = concat(image_at("grey", place), "<g transform=\"translate(", number(place.x), " ",
                           number(place.y), ") scale(", place.width / static_cast<double>(columns), " ",
                           place.height / static_cast<double>(rows), ")\" shape-rendering=\"crispEdges\">\n");
  for (size_t shade = 0; shade <= kShades; ++shade) {
    if (paths[shade].empty()) continue;
    const double heat = static_cast<double>(shade) / kShades, opacity = 0.5 + 0.3 * heat;
    svg += concat("<path fill=\"", hex(blend(kHeat, heat)), "\" fill-opacity=\"",
                  std::round(opacity * 1000) / 1000, "\" d=\"", paths[shade], "\"/>\n");
  }
  return svg + "</g>\n";
}

// The first token's weights for the patches: of one head, or with `head` equal to the number of heads, the
// mean.
std::vector<float> weights_of(const Tensor& layer, int64_t head, int64_t own) {
  const int64_t heads = layer.dim(0), tokens = layer.dim(1);
  std::vector<float> weights(static_cast<size_t>(tokens - own));
  const int64_t first = head < heads ? head : 0, last = head < heads ? head + 1 : heads;
  for (int64_t h = first; h < last; ++h) {
    const float* row = layer.data() + h * tokens * layer.row_stride();
    for (size_t i = 0; i < weights.size(); ++i) weights[i] += row[own + static_cast<int64_t>(i)];
  }
  return weights;
}

// The image in colour, and in greyscale for the overlays.
std::string embedded_images(const data::Image& image) {
  const int64_t longest = std::max(image.height, image.width);
  const auto side = [&](int64_t length) {
    return longest <= kImageSide ? length : std::max<int64_t>(length * kImageSide / longest, 1);
  };
  data::Image small = data::resize(image, side(image.height), side(image.width), data::Resampling::bilinear);
  const auto symbol = [&](const char* name) {
    return concat("<symbol id=\"", name, "\" viewBox=\"0 0 ", small.width, " ", small.height,
                  "\" preserveAspectRatio=\"none\"><image width=\"", small.width, "\" height=\"",
                  small.height, "\" href=\"data:image/jpeg;base64,", base64(data::encode_jpeg(small)),
                  "\"/></symbol>\n");
  };
  const std::string colours = symbol("image");
  for (size_t i = 0; i < small.pixels.size(); i += 3) {
    const double grey = 0.27 * small.pixels[i] + 0.64 * small.pixels[i + 1] + 0.09 * small.pixels[i + 2];
    std::fill_n(small.pixels.begin() + static_cast<std::ptrdiff_t>(i), 3, static_cast<uint8_t>(grey));
  }
  return colours + symbol("grey");
}

}  // namespace

std::string to_svg(const ImageAttentionReport& report) {
  report.validate();
  const int64_t heads = report.layers.front().dim(0), own = std::ssize(report.own_tokens);
  const double height =
      kPanelWidth * static_cast<double>(report.image.height) / static_cast<double>(report.image.width);
  const double left = kMargin + kLetters;
  const auto column = [&](int64_t head) {
    return left + static_cast<double>(head) * (kPanelWidth + kGap) + (head >= heads ? 2 * kGap : 0);
  };
  // The image, with its description beside it.
  std::string svg = image_at("image", {kMargin, kMargin, kPanelWidth, height});
  const double beside = kMargin + kPanelWidth + 2 * kGap;
  double y = kMargin;
  if (!report.title.empty()) {
    y += 20;
    svg += text_at(beside, y, 19, kInk, " font-weight=\"650\"", xml_label(report.title, 120).text);
  }
  if (!report.model.empty()) {
    y += 20;
    svg += text_at(beside, y, 12, kQuiet, "", xml_label(report.model, 160).text);
  }
  for (size_t i = 0; i < std::min<size_t>(report.labels.size(), 3); ++i) {
    y += 20;
    const auto& [label, probability] = report.labels[i];
    svg += text_at(beside, y, 12, kInk, "",
                   concat(number(100 * double{probability}), " % ", xml_label(label, 80).text));
  }
  y = std::max(y, kMargin + height);
  y += 34;
  svg += text_at(kMargin, y, 15, kInk, " font-weight=\"600\"",
                 concat("Where ", xml_label(report.own_tokens.front()).text, " looks"));
  y += 24;
  for (int64_t head = 0; head <= heads + 1; ++head) {
    const std::string name = head < heads    ? concat("head ", head + 1)
                             : head == heads ? std::string("mean")
                                             : std::string("rollout");
    svg += text_at(column(head), y, 12, kQuiet, "", name);
  }
  y += 8;
  const std::vector<Tensor> rollouts = attention_rollout(report.layers);
  for (size_t layer = 0; layer < report.layers.size(); ++layer) {
    svg += text_at(kMargin, y + height / 2 + 4, 12, kQuiet, "", concat("layer ", layer + 1));
    for (int64_t head = 0; head <= heads; ++head) {
      svg += draw_map(weights_of(report.layers[layer], head, own), report.rows, report.columns,
                      {column(head), y, kPanelWidth, height});
    }
    const std::span<const float> rolled = rollouts[layer].values().subspan(static_cast<size_t>(own));
    svg += draw_map({rolled.begin(), rolled.begin() + report.rows * report.columns}, report.rows,
                    report.columns, {column(heads + 1), y, kPanelWidth, height});
    y += height + kGap;
  }
  const std::string width = number(column(heads + 1) + kPanelWidth + kMargin), all = number(y + kMargin / 2);
  return concat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width,
      "\" height=\"", all, "\" viewBox=\"0 0 ", width, " ", all,
      "\" font-family=\"system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif\">\n<title>",
      xml_label(report.title.empty() ? "Attention" : report.title, 200).text, "</title>\n",
      embedded_images(report.image), "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", svg,
      "</svg>\n");
}

}  // namespace qkv::explain
