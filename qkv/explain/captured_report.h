#pragma once
// From captured attention to a report.

#include <string>

#include "qkv/explain/attention_report.h"
#include "qkv/pipelines/text_attention.h"

namespace qkv::explain {

// A report on every captured attention. `model` is a line about the model, such as its folder; the title is
// the source and its translation. Throws DataError for an attention whose name has no part and layer.
AttentionReport attention_report(const pipelines::TextCapture& captured, const std::string& model);

// The same of one text in an encoder or a language model. Layers of the latter are decoder layers: a token
// attends to those before it.
AttentionReport attention_report(const pipelines::TextAttention& captured, const std::string& title,
                                 const std::string& model);

// "decoder.layers.1.encoder_attn" with its weights as a layer of a report. Throws DataError as above.
AttentionLayer attention_layer(const search::CapturedAttention& attention);

}  // namespace qkv::explain
