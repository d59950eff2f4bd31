#pragma once
// Converts captured attention to a report.

#include <string>

#include "qkv/explain/attention_report.h"
#include "qkv/pipelines/text_attention.h"

namespace qkv::explain {

// A report on all captured attentions. `model` describes the model, such as its folder; the title is the
// source and its translation. Throws DataError for an attention whose name has no part and layer.
AttentionReport attention_report(const pipelines::TextCapture& captured, const std::string& model);

// Likewise for one text in an encoder or a language model. The latter's layers are decoder layers: a token
// attends to preceding ones.
AttentionReport attention_report(const pipelines::TextAttention& captured, const std::string& title,
                                 const std::string& model);

// Converts "decoder.layers.1.encoder_attn" and its weights to a layer of a report. Throws DataError as above.
AttentionLayer attention_layer(const search::CapturedAttention& attention);

}  // namespace qkv::explain
