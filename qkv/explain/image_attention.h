#pragma once
// Where a model of images looks: the weights of one image, and reports made of them.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "qkv/data/image.h"
#include "qkv/pipelines/image_encoder.h"
#include "qkv/tensor/tensor.h"

namespace qkv::explain {

// How attention flows through layers (Abnar and Zuidema 2020, attention rollout). Layers are f32
// [heads, tokens, tokens]; of each, with all those below it, f32 [tokens, tokens]:
//   rollout_l = A_l rollout_{l-1},  A_l = (mean of the heads' weights + I) / 2, its rows made to sum to 1
// which says how much of what a token holds after layer l came from each token of the image. Throws
// ShapeError.
std::vector<Tensor> attention_rollout(std::span<const Tensor> layers);

// Texts are UTF-8; what is not is shown with replacement characters.
struct ImageAttentionReport {
  std::string title, model;             // one line each, may be empty
  data::Image image;                    // what the model has seen
  int64_t rows = 0, columns = 0;        // of patches, which cover the image
  std::vector<std::string> own_tokens;  // those in front of the patches: "[CLS]"
  std::vector<Tensor> layers;  // f32 [heads, tokens, tokens], a row for each query, first layer first
  std::vector<pipelines::LabelProbability> labels;  // what the model takes it for; may be empty

  int64_t tokens() const { return std::ssize(own_tokens) + rows * columns; }
  // Throws ShapeError naming the layer where weights and patches disagree, UsageError where there is no
  // layer, patch or image, and NumericError where a weight is not finite.
  void validate() const;
};

// Of every attention that was captured; `title` is a line about the image, such as its path.
ImageAttentionReport image_attention_report(const pipelines::ImageAttention& captured,
                                            const std::string& title, const std::string& model);

// {"title", "model", "own_tokens", "patches": {"rows", "columns"}, "labels": [{"label", "probability"}],
//  "layers": [{"layer": 0, "heads": [head][query][key]}], "rollout": [layer][query][key]}, to the last bit.
std::string to_json(const ImageAttentionReport& report);

// One page that needs nothing else and loads nothing from the network: the image under the weights of each
// head, layer by layer, of their mean and of the rollout, for the token that is chosen; patches are chosen by
// clicking on them. Weights of patches are rounded to 1/255 of a row's largest.
std::string to_html(const ImageAttentionReport& report);

// A drawing for papers and slides: layers down, heads across, their mean and the rollout behind them, for the
// first token; each map from its lowest to its highest weight.
std::string to_svg(const ImageAttentionReport& report);

// Writes the report as what the file's extension says, as write_report() of texts does.
void write_report(const ImageAttentionReport& report, const std::filesystem::path& path);

}  // namespace qkv::explain
