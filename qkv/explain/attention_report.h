#pragma once
// Attention reports: the attention weights of a sentence pair as JSON, HTML or SVG.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/explain/head_statistics.h"
#include "qkv/tensor/tensor.h"

namespace qkv::explain {

enum class Part : uint8_t {
  encoder,  // source tokens attend to source tokens
  decoder,  // target tokens attend to the tokens read so far
  cross,    // target tokens attend to source tokens
};

constexpr const char* name_of(Part part) {
  return part == Part::encoder ? "encoder" : part == Part::decoder ? "decoder" : "cross";
}

// The weights of one layer: softmax(Q K^T / sqrt(d_k)), f32 [heads, queries, keys].
struct AttentionLayer {
  Part part = Part::encoder;
  int index = 0;  // from 0 within its part, as in parameter names; pages and drawings count from 1
  Tensor weights;
  // Of each head; empty: head_statistics() computes them. Layers of tiles have those of the tokens.
  std::vector<HeadStatistics> statistics = {};
};

// Tokens are UTF-8; malformed bytes are shown as replacement characters.
struct AttentionReport {
  std::string title, model;                // one line each, may be empty
  std::vector<std::string> source_tokens;  // queries and keys of encoder layers, keys of cross layers
  // The token predicted at each position: queries of decoder and cross layers.
  std::vector<std::string> target_tokens;
  // The token read at each position: keys of decoder layers; empty: target_tokens.
  std::vector<std::string> target_inputs;
  std::vector<AttentionLayer> layers;
  // 1: a token that the tokenizer added, such as [CLS] or </s>; empty: unknown.
  std::vector<uint8_t> source_special = {}, target_special = {};
  // The first source token of the second text, if the source is a pair of texts. Drawings have a line there.
  std::optional<int64_t> second_text = {};
  // The source token that each target token is aligned to; empty: unknown. Drawings of cross attention frame
  // it, unless one of the two tokens is special or the head has next to no weight there.
  std::vector<int32_t> alignment = {};
  // Above 1: queries and keys are tiles of this many tokens (explain/tiles.h), of tiled_tokens in total.
  int64_t tile = 1, tiled_tokens = 0;

  // The tokens of decoder layers are the source's, as in a language model.
  bool reads_one_text() const { return target_inputs.empty(); }
  const std::vector<std::string>& queries(Part part) const;
  const std::vector<std::string>& keys(Part part) const;

  // Throws ShapeError naming the layer if weights and tokens disagree or layers of a part differ in heads,
  // and for other numbers of special marks or aligned tokens than tokens; UsageError for a repeated layer or
  // none at all, and for positions outside the source; NumericError for a non-finite weight.
  void validate() const;
};

// {"title", "model", "tile", "tokens" (both of tiles only), "source_tokens", "target_tokens",
// "target_inputs",
//  "source_special": [1, 0, ...], "target_special": [0, ...], "second_text": 5, "alignment": [0, 2, ...],
//  "layers": [{"part": "cross", "layer": 0, "heads": [head][query][key],
//              "statistics": [{"entropy", "largest", "first", "information", "distance", "special",
//              "across"}]}]}
// Weights are written losslessly. What is unknown is missing. Statistics: explain/head_statistics.h.
std::string to_json(const AttentionReport& report);

// A self-contained page without network access: heat maps and line views of every head and layer, an overview
// of all heads, and weights to 4 digits on hover. It opens at most_informative_head() of the last part, and
// has a light and a dark theme, supports the keyboard, and saves the view as a PNG.
std::string to_html(const AttentionReport& report);

// The part of a report to draw: everything, or one part, layer or head; on a light or a dark background.
struct SvgOptions {
  std::optional<Part> part = {};
  std::optional<int> layer = {};  // from 0
  std::optional<int> head = {};   // from 0
  bool dark = false;

  bool operator==(const SvgOptions&) const = default;
};

// A drawing for papers and slides: for each part, layers in rows and heads in columns. A drawing of a single
// head shows the weights as numbers too. Colours of each map span 0 to its largest weight. Throws UsageError
// if the options select nothing.
std::string to_svg(const AttentionReport& report, const SvgOptions& options = {});

// Writes the report atomically, in the format of the file's extension: .html, .json or .svg. Throws
// UsageError for any other extension, and for options of a drawing if it is no .svg; IoError if the file
// cannot be written. All these functions call validate().
void write_report(const AttentionReport& report, const std::filesystem::path& path,
                  const SvgOptions& drawing = {});

}  // namespace qkv::explain
