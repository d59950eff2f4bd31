#pragma once
// The attention of an image model on one image, and its reports.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "qkv/data/image.h"
#include "qkv/pipelines/images/image_attention.h"
#include "qkv/tensor/tensor.h"

namespace qkv::explain {

// Attention rollout (Abnar and Zuidema 2020): the share of each input token in each token after layer l.
//   rollout_l = A_l rollout_{l-1},  A_l = (mean over heads of the weights + I) / 2, rows normalised
// One f32 [heads, tokens, tokens] per layer -> one f32 [tokens, tokens] per layer. Throws ShapeError.
std::vector<Tensor> attention_rollout(std::span<const Tensor> layers);

// Texts are UTF-8; malformed bytes are shown as replacement characters.
struct ImageAttentionReport {
  std::string title, model;             // one line each, may be empty
  data::Image image;                    // the model's input region
  models::ImageRegion region = {};      // where it lies in the whole image
  int64_t rows = 0, columns = 0;        // of patches, which tile the image
  std::vector<std::string> own_tokens;  // special tokens before the patches: "[CLS]"
  std::vector<Tensor> layers;           // f32 [heads, tokens, tokens], one per layer, first layer first
  std::vector<pipelines::LabelProbability> labels;  // the predicted classes; may be empty

  int64_t tokens() const { return std::ssize(own_tokens) + rows * columns; }
  // Throws ShapeError naming the layer if weights and patches disagree, UsageError if there is no layer,
  // patch or image, and NumericError for a non-finite weight.
  void validate() const;
};

// A report on all captured attentions. `title` describes the image, such as its path.
ImageAttentionReport image_attention_report(const pipelines::ImageAttention& captured,
                                            const std::string& title, const std::string& model);

// {"title", "model", "own_tokens", "patches": {"rows", "columns"},
//  "region": {"top", "left", "height", "width"}, "labels": [{"label", "probability"}],
//  "layers": [{"layer": 0, "heads": [head][query][key], "statistics": [{"entropy", "largest", "first",
//  "special", "distance"}]}], "rollout": [layer][query][key]}. Weights keep every bit.
std::string to_json(const ImageAttentionReport& report);

// A self-contained page without network access: for a chosen token, the weights of each layer and head, their
// mean and the rollout, overlaid on the image. A click selects a patch. Weights of patches are rounded to
// 1/255 of a row's maximum.
std::string to_html(const ImageAttentionReport& report);

// A drawing for papers and slides, for the first token: layers in rows; heads, their mean and the rollout in
// columns. Colours of each map span its own range.
std::string to_svg(const ImageAttentionReport& report);

// Writes the report in the format of the file's extension, like write_report() for texts.
void write_report(const ImageAttentionReport& report, const std::filesystem::path& path);

}  // namespace qkv::explain
