#pragma once
// Attention reports: the weights of one sentence pair as JSON, HTML or SVG.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/tensor/tensor.h"

namespace qkv::explain {

enum class Part {
  encoder,  // source tokens attend to source tokens
  decoder,  // target tokens attend to the tokens that the decoder has read
  cross,    // target tokens attend to source tokens
};

constexpr const char* name_of(Part part) {
  return part == Part::encoder ? "encoder" : part == Part::decoder ? "decoder" : "cross";
}

// The weights of one layer: softmax(Q K^T / sqrt(d_k)), f32 [heads, queries, keys], a row for each query.
struct AttentionLayer {
  Part part = Part::encoder;
  int index = 0;  // from 0 within its part, as in the parameters' names; reports for people count from 1
  Tensor weights;
};

// Tokens are UTF-8; malformed bytes show as replacement characters.
struct AttentionReport {
  std::string title, model;                // one line each, may be empty
  std::vector<std::string> source_tokens;  // queries and keys of encoder layers, keys of cross layers
  std::vector<std::string>
      target_tokens;  // what each decoder position produces: queries of decoder and cross
  std::vector<std::string> target_inputs;  // what each has read: keys of decoder layers; empty: target_tokens
  std::vector<AttentionLayer> layers;

  const std::vector<std::string>& queries(Part part) const;
  const std::vector<std::string>& keys(Part part) const;

  // Throws ShapeError naming the layer where weights and tokens disagree or layers of a part differ in heads,
  // UsageError where a layer comes twice or there is none, and NumericError where a weight is not finite.
  void validate() const;
};

// {"title", "model", "source_tokens", "target_tokens", "target_inputs",
//  "layers": [{"part": "cross", "layer": 0, "heads": [head][query][key]}]}, Weights keep every bit.
std::string to_json(const AttentionReport& report);

// A self-contained page without network access: a heat map and a line view of every head of every layer, an
// overview of all heads, and each weight to 4 digits under the pointer. It has a light and a dark theme,
// works by keyboard, and saves the view as a PNG.
std::string to_html(const AttentionReport& report);

// The extent of an SVG: everything, or one part, one layer, one head.
struct SvgOptions {
  std::optional<Part> part = {};
  std::optional<int> layer = {};  // from 0
  std::optional<int> head = {};   // from 0
};

// A drawing for papers and slides: for each part, layers down and heads across. A single map shows its
// weights as numbers too. Throws UsageError if the options select nothing.
std::string to_svg(const AttentionReport& report, const SvgOptions& options = {});

// Writes the report atomically, in the format of the file's extension: .html, .json or .svg. Throws
// UsageError for any other extension and IoError when the file cannot be written. All of these functions call
// validate().
void write_report(const AttentionReport& report, const std::filesystem::path& path);

}  // namespace qkv::explain
