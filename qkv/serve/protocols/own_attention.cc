// The attention of texts.

#include <optional>
#include <string>

#include "qkv/base/json.h"
#include "qkv/explain/attention_report.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/own.h"

namespace qkv::serve {
namespace {

void attention(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "attention");
  const std::string text = fields.required("text").string(), target = fields.text("target"),
                    pair = fields.text("text_pair");
  const auto layer = fields.integer("layer"), head = fields.integer("head"), tile = fields.integer("tile");
  const std::string part = fields.text("part");
  if (!part.empty() && part != "encoder" && part != "decoder" && part != "cross") {
    throw HttpError(
        400, concat("part: expected \"encoder\", \"decoder\" or \"cross\", found ", quoted_json(part)));
  }
  fields.done();
  run_serially(model, exchange, [model, text, target, pair, tile, layer, head, part] {
    explain::AttentionReport report = model->attention(text, target, pair, tile);
    std::erase_if(report.layers, [&](const explain::AttentionLayer& one) {
      return (layer && one.index != *layer) || (!part.empty() && part != explain::name_of(one.part));
    });
    if (report.layers.empty())
      throw HttpError(400, "layer, part: expected ones that the model has, found none");
    for (explain::AttentionLayer& one : report.layers) {
      if (!head) break;
      if (*head >= one.weights.dim(0))
        throw HttpError(400, concat("head: expected one below ", one.weights.dim(0), ", found ", *head));
      one.weights = one.weights.slice(0, *head, 1);
      if (!one.statistics.empty()) one.statistics = {one.statistics[static_cast<size_t>(*head)]};
    }
    return to_json(report);
  });
}

}  // namespace

std::vector<Route> attention_routes() {
  const Range place = between(0, 1 << 20);
  return {post(
      "/v1/attention", attention, "Attention weights of a text, or of a text and its translation.",
      {model_field(), required("text", "string"),
       optional("target", "string", "Default: the model's own translation"),
       optional("text_pair", "string", "The second text of a pair; text encoders only"),
       whole("tile", place,
             "Tokens in a query and key; 0, the default: 1 up to 256 tokens, beyond 128 tiles. At most "
             "256 tiles. "
             "Not for translation"),
       optional("part", R"("encoder" | "decoder" | "cross")", "Default: all"), whole("layer", place),
       whole("head", place)},
      R"({title?: string, model?: string, source_tokens: [string], target_tokens: [string], target_inputs?: [string],
  source_special?: [integer(0..1)] '1: a token that the tokenizer added.',
  second_text?: integer(0..) 'The first token of the second text.',
  tile?: integer(2..) 'Tokens in a tile, if queries and keys are tiles.',
  tokens?: integer(1..) 'Of the text, if it has tiles.',
  alignment?: [integer(0..)] 'The source token of each target token.',
  layers: [{part: "encoder" | "decoder" | "cross", layer: integer(0..), heads: [[[number]]], statistics: Statistics}]})")};
}

}  // namespace qkv::serve
