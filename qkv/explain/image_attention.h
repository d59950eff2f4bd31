#pragma once
// The attention of an image model over one image, and its reports.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "qkv/data/image.h"
#include "qkv/pipelines/image_attention.h"
#include "qkv/tensor/tensor.h"

namespace qkv::explain {

// Attention rollout (Abnar and Zuidema 2020): the share of each input token in each token after layer l.
//   rollout_l = A_l rollout_{l-1},  A_l = (mean over heads of the weights + I) / 2, rows normalised to sum to
//   1
// Takes f32 [heads, tokens, tokens] for each layer, gives f32 [tokens, tokens] for each. Throws ShapeError.
std::vector<Tensor> attention_rollout(std::span<const Tensor> layers);

// Texts are UTF-8; malformed bytes show as replacement characters.
struct ImageAttentionReport {
  std::string title, model;             // one line each, may be empty
  data::Image image;                    // as the model sees it
  int64_t rows = 0, columns = 0;        // of patches, which cover the image
  std::vector<std::string> own_tokens;  // in front of the patches: "[CLS]"
  std::vector<Tensor> layers;  // f32 [heads, tokens, tokens], a row for each query, first layer first
  std::vector<pipelines::LabelProbability> labels;  // the predicted classes; may be empty

  int64_t tokens() const { return std::ssize(own_tokens) + rows * columns; }
  // Throws ShapeError naming the layer where weights and patches disagree, UsageError where there is no
  // layer, patch or image, and NumericError where a weight is not finite.
  void validate() const;
};

// A report on every captured attention. `title` is a line about the image, such as its path.
ImageAttentionReport image_attention_report(const pipelines::ImageAttention& captured,
                                            const std::string& title, const std::string& model);

// {"title", "model", "own_tokens", "patches": {"rows", "columns"}, "labels": [{"label", "probability"}],
//  "layers": [{"layer": 0, "heads": [head][query][key]}], "rollout": [layer][query][key]}. Weights keep every
//  bit.
std::string to_json(const ImageAttentionReport& report);

// A self-contained page without network access: for the chosen token, the weights of each layer and head,
// their mean and the rollout, drawn over the image. A click chooses a patch. Weights of patches are rounded
// to 1/255 of a row's largest.
std::string to_html(const ImageAttentionReport& report);

// A drawing for papers and slides, of the first token: layers down, heads across, then their mean and the
// rollout. Each map runs from its lowest to its highest weight.
std::string to_svg(const ImageAttentionReport& report);

// Writes the report in the format of the file's extension, as write_report() of texts does.
void write_report(const ImageAttentionReport& report, const std::filesystem::path& path);

}  // namespace qkv::explain
