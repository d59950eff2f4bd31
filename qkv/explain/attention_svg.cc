#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "qkv/base/error.h"
#include "qkv/explain/attention_report.h"
#include "qkv/explain/palette.h"
#include "qkv/explain/svg_parts.h"

namespace qkv::explain {
namespace {

constexpr int kShades = 33;  // colours of a map; shade 0 is its background
constexpr double kPanelGap = 18;

struct Theme {
  const char *ink, *quiet, *paper, *border;
  const char* on_large;  // text on cells of large weights
};
constexpr Theme kLight{kInk, kQuiet, "#ffffff", "#c9cfda", "#ffffff"};
constexpr Theme kDark{"#e6edf3", "#9aa4b2", "#0d1117", "#3a4250", "#10141b"};

std::vector<Label> labels_of(const std::vector<std::string>& tokens) {
  std::vector<Label> labels;
  for (const std::string& token : tokens) labels.push_back(xml_label(token));
  return labels;
}

double widest(const std::vector<Label>& labels) {
  double most = 0;
  for (const Label& label : labels) most = std::max(most, label.letters);
  return most;
}

// The map of one head: position and data.
struct Panel {
  const float* weights = nullptr;  // [queries, keys] with a row stride
  int64_t stride = 0;
  Part part = Part::encoder;
  double x = 0, y = 0, cell = 0;
  float top = 1;  // the weight of the last colour
  bool dark = false;

  float weight(int64_t query, int64_t key) const { return weights[query * stride + key]; }
  const Theme& theme() const { return dark ? kDark : kLight; }
};

// The largest weight. The first token of a decoder can attend to one key only, with weight 1: it does not
// count.
float largest_weight(const Panel& panel, int64_t queries, int64_t keys) {
  float top = 0;
  for (int64_t i = panel.part == Part::decoder && queries > 1 ? 1 : 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) top = std::max(top, panel.weight(i, j));
  }
  return top > 0 ? top : 1;
}

// Cells of equal shade form one path, which keeps a map of 100 x 100 small.
std::string draw_cells(const Panel& panel, int64_t queries, int64_t keys) {
  const Palette palette = palette_of(panel.part);
  const Ramp& ramp = panel.dark ? palette.dark : palette.light;
  std::array<std::string, kShades> paths;
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys;) {
      const auto shade_at = [&](int64_t k) {
        const float share = panel.weight(i, k) / panel.top;
        return static_cast<size_t>(std::clamp<long>(std::lround(share * (kShades - 1)), 0, kShades - 1));
      };
      const size_t shade = shade_at(j);
      int64_t run = 1;
      while (j + run < keys && shade_at(j + run) == shade) ++run;
      if (shade > 0) paths[shade] += concat("M", j, " ", i, "h", run, "v1h-", run, "z");
      j += run;
    }
  }
  std::string svg = concat("<g transform=\"translate(", number(panel.x), " ", number(panel.y), ") scale(",
                           number(panel.cell), ")\" shape-rendering=\"crispEdges\">\n<rect width=\"", keys,
                           "\" height=\"", queries, "\" fill=\"", hex(ramp[0]), "\"/>\n");
  for (size_t shade = 1; shade < kShades; ++shade) {
    if (paths[shade].empty()) continue;
    const uint32_t colour = blend(ramp, static_cast<double>(shade) / (kShades - 1));
    svg += concat("<path fill=\"", hex(colour), "\" d=\"", paths[shade], "\"/>\n");
  }
  svg += "</g>\n";
  return svg + concat("<rect x=\"", number(panel.x), "\" y=\"", number(panel.y), "\" width=\"",
                      number(panel.cell * static_cast<double>(keys)), "\" height=\"",
                      number(panel.cell * static_cast<double>(queries)), "\" fill=\"none\" stroke=\"",
                      panel.theme().border, "\" stroke-width=\"0.7\"/>\n");
}

std::string draw_numbers(const Panel& panel, int64_t queries, int64_t keys) {
  std::string svg;
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) {
      const float weight = panel.weight(i, j);
      if (weight < 0.005f) continue;
      std::array<char, 16> text{};
      std::snprintf(text.data(), text.size(), "%.2f", weight);
      svg +=
          text_at(panel.x + (static_cast<double>(j) + 0.5) * panel.cell,
                  panel.y + (static_cast<double>(i) + 0.5) * panel.cell + panel.cell * 0.1, panel.cell * 0.28,
                  weight > 0.5f * panel.top ? panel.theme().on_large : panel.theme().ink,
                  " text-anchor=\"middle\"", text.data());
    }
  }
  return svg;
}

// The boundary of two texts, and the source token that each target token is aligned to.
std::string draw_marks(const Panel& panel, const AttentionReport& report, int64_t queries, int64_t keys) {
  std::string svg;
  const auto line = [&](double x, double y, const std::string& to) {
    svg += concat("<path d=\"M", number(x), " ", number(y), to, "\" stroke=\"", panel.theme().ink,
                  "\" stroke-width=\"1\"/>\n");
  };
  if (report.second_text && panel.part != Part::cross && report.reads_one_text()) {
    const double at = static_cast<double>(*report.second_text) * panel.cell;
    line(panel.x + at, panel.y, concat("v", number(static_cast<double>(queries) * panel.cell)));
    line(panel.x, panel.y + at, concat("h", number(static_cast<double>(keys) * panel.cell)));
  }
  if (panel.part != Part::cross) return svg;
  const auto special = [](const std::vector<uint8_t>& marks, size_t at) {
    return !marks.empty() && marks[at] != 0;
  };
  for (size_t i = 0; i < report.alignment.size(); ++i) {
    const auto key = static_cast<size_t>(report.alignment[i]);
    if (special(report.target_special, i) || special(report.source_special, key)) continue;
    if (panel.weight(static_cast<int64_t>(i), report.alignment[i]) < 0.1f * panel.top)
      continue;  // an empty cell
    svg += concat("<rect x=\"", number(panel.x + static_cast<double>(report.alignment[i]) * panel.cell),
                  "\" y=\"", number(panel.y + static_cast<double>(i) * panel.cell), "\" width=\"",
                  number(panel.cell), "\" height=\"", number(panel.cell), "\" fill=\"none\" stroke=\"",
                  panel.theme().ink, "\" stroke-width=\"1\"/>\n");
  }
  return svg;
}

struct Drawing {
  std::string svg;
  double width = 0, height = 0;  // extent drawn so far
};

// Draws the maps of one part below the previous ones: layers in rows, heads in columns.
void draw_part(const AttentionReport& report, Part part, const std::vector<const AttentionLayer*>& layers,
               const SvgOptions& options, Drawing& drawing) {
  const std::vector<Label> rows = labels_of(report.queries(part)), columns = labels_of(report.keys(part));
  const int64_t queries = static_cast<int64_t>(rows.size()), keys = static_cast<int64_t>(columns.size());
  const int64_t first = options.head.value_or(0);
  const Theme& theme = options.dark ? kDark : kLight;
  const int64_t heads = options.head ? 1 : layers.front()->weights.dim(0);
  const bool alone = heads == 1 && layers.size() == 1;
  const double most = static_cast<double>(std::max(queries, keys));
  const double cell = alone ? std::clamp(900 / most, 12.0, 40.0) : std::clamp(170 / most, 11.0, 22.0);
  const double font = std::clamp(cell * 0.72, 9.0, alone ? 14.0 : 12.0);
  const double angle = cell < 1.4 * font ? 90 : 45;  // upright labels do not touch over narrow cells
  const double left = kMargin + 30 + widest(rows) * font * kLetterWidth;
  const double above = widest(columns) * font * kLetterWidth * (angle < 90 ? 0.71 : 1) + font + 6;
  const double width = cell * static_cast<double>(keys), height = cell * static_cast<double>(queries);

  drawing.height += 34;
  const char* names[] = {"Encoder", "Decoder", "Cross-attention"};
  const std::string heading = alone ? concat(names[static_cast<int>(part)], ", layer ",
                                             layers.front()->index + 1, ", head ", first + 1)
                                    : names[static_cast<int>(part)];
  drawing.svg +=
      concat("<g>\n", text_at(kMargin, drawing.height, 15, theme.ink, " font-weight=\"600\"", heading));
  drawing.height += 10;
  if (!alone) {
    drawing.height += 18;
    for (int64_t head = 0; head < heads; ++head) {
      drawing.svg += text_at(left + static_cast<double>(head) * (width + kPanelGap), drawing.height, 12,
                             theme.quiet, "", concat("head ", first + head + 1));
    }
    drawing.height += 4;
  }
  for (int64_t head = 0; head < heads; ++head) {
    for (size_t j = 0; j < columns.size(); ++j) {
      const double x = left + static_cast<double>(head) * (width + kPanelGap) +
                       (static_cast<double>(j) + 0.5) * cell + (angle < 90 ? 0 : font * 0.35);
      const std::string turn = concat(" transform=\"rotate(-", number(angle), " ", number(x), " ",
                                      number(drawing.height + above - 5), ")\"");
      drawing.svg += text_at(x, drawing.height + above - 5, font, theme.ink, turn, columns[j].text);
    }
  }
  drawing.height += above;
  for (const AttentionLayer* layer : layers) {
    if (!alone) {
      const double x = kMargin + 10, y = drawing.height + height / 2;
      drawing.svg +=
          text_at(x, y, 12, theme.quiet,
                  concat(" text-anchor=\"middle\" transform=\"rotate(-90 ", number(x), " ", number(y), ")\""),
                  concat("layer ", layer->index + 1));
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      drawing.svg += text_at(left - 6, drawing.height + (static_cast<double>(i) + 0.5) * cell + font * 0.35,
                             font, theme.ink, " text-anchor=\"end\"", rows[i].text);
    }
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t stride = layer->weights.row_stride();
      Panel panel{.weights = layer->weights.data() + (first + head) * queries * stride,
                  .stride = stride,
                  .part = part,
                  .x = left + static_cast<double>(head) * (width + kPanelGap),
                  .y = drawing.height,
                  .cell = cell,
                  .top = 1,
                  .dark = options.dark};
      panel.top = largest_weight(panel, queries, keys);
      drawing.svg += draw_cells(panel, queries, keys) + draw_marks(panel, report, queries, keys);
      if (alone && cell >= 26) drawing.svg += draw_numbers(panel, queries, keys);
    }
    drawing.height += height + kPanelGap;
  }
  drawing.svg += "</g>\n";
  const double overhang = widest(columns) * font * kLetterWidth * (angle < 90 ? 0.71 : 0);
  drawing.width =
      std::max(drawing.width, left + static_cast<double>(heads) * (width + kPanelGap) - kPanelGap + overhang);
}

}  // namespace

std::string to_svg(const AttentionReport& report, const SvgOptions& options) {
  report.validate();
  const Theme& theme = options.dark ? kDark : kLight;
  Drawing drawing;
  drawing.height = kMargin;
  if (!report.title.empty()) {
    const Label title = xml_label(report.title, 120);
    drawing.height += 20;
    drawing.svg += text_at(kMargin, drawing.height, 19, theme.ink, " font-weight=\"650\"", title.text);
    drawing.width = kMargin + title.letters * 19 * kLetterWidth;
  }
  if (!report.model.empty()) {
    drawing.height += 20;
    drawing.svg += text_at(kMargin, drawing.height, 12, theme.quiet, "", xml_label(report.model, 160).text);
  }
  drawing.height += 18;
  drawing.svg += text_at(kMargin, drawing.height, 12, theme.quiet, "",
                         "Colours: from 0 to the largest weight of each map");
  bool drawn = false;
  for (const Part part : {Part::encoder, Part::decoder, Part::cross}) {
    if (options.part.value_or(part) != part) continue;
    std::vector<const AttentionLayer*> layers;
    for (const AttentionLayer& layer : report.layers) {
      const bool wanted = layer.part == part && options.layer.value_or(layer.index) == layer.index;
      const int head = options.head.value_or(0);
      if (wanted && head >= 0 && head < layer.weights.dim(0)) layers.push_back(&layer);
    }
    if (layers.empty()) continue;
    std::ranges::sort(layers, {}, &AttentionLayer::index);
    draw_part(report, part, layers, options, drawing);
    drawn = true;
  }
  if (!drawn) {
    const auto number_of = [](std::optional<int> index) {
      return index ? concat(int64_t{*index} + 1, " (index ", *index, ")") : std::string("any");
    };
    throw UsageError(concat("attention drawing: expected a part, layer and head of the report, found part ",
                            options.part ? name_of(*options.part) : "any", ", layer ",
                            number_of(options.layer), ", head ", number_of(options.head)));
  }
  const std::string width = number(drawing.width + kMargin), height = number(drawing.height + kMargin / 2);
  return concat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width,
      "\" height=\"", height, "\" viewBox=\"0 0 ", width, " ", height,
      "\" font-family=\"system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif\">\n<title>",
      xml_label(report.title.empty() ? "Attention" : report.title, 200).text,
      "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"", theme.paper, "\"/>\n", drawing.svg,
      "</svg>\n");
}

}  // namespace qkv::explain
