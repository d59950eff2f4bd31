#pragma once
// From attention as the model ran it to attention as people read it.

#include <string>

#include "qkv/explain/attention_report.h"
#include "qkv/pipelines/text_attention.h"
#include "qkv/pipelines/text_capture.h"

namespace qkv::explain {

// A report on every attention that was captured; `model` is a line about the model, such as its folder. The
// title is the source and what it became. Throws DataError for an attention whose name says no part and
// layer.
AttentionReport attention_report(const pipelines::TextCapture& captured, const std::string& model);

// The same of one text in a model that reads nothing else: its layers are encoder layers, or decoder layers
// where each token sees those before it.
AttentionReport attention_report(const pipelines::TextAttention& captured, const std::string& title,
                                 const std::string& model);

// "decoder.layers.1.encoder_attn" with its weights as a layer of a report. Throws DataError as above.
AttentionLayer attention_layer(const search::CapturedAttention& attention);

}  // namespace qkv::explain
