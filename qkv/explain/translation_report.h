#pragma once
// The attention report of a translation.

#include <string>

#include "qkv/decode/capture.h"
#include "qkv/explain/attention_report.h"

namespace qkv::explain {

// Throws UsageError for an attention whose name is not of the kind "decoder.layers.1.encoder_attn".
AttentionReport report_of(const decode::TextCapture& text, const std::string& model_name);

// What the model attends to while it reads `source` and writes `target`, or, where `target` is empty, its own
// translation. Throws what decode::capture_text() throws.
AttentionReport translation_report(const models::TranslationModel& model, const std::string& model_name,
                                   const std::string& source, const std::string& target = {},
                                   const decode::SearchOptions& options = {});

}  // namespace qkv::explain
