#include "qkv/pipelines/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/json.h"

namespace qkv::pipelines {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace); }

// The object with `fields`, or {"error": ...}.
template <class Result, class Fields>
std::string object_of(const Result& result, const Fields& fields) {
  return dump(result.error.empty() ? Json(fields()) : Json{{"error", result.error}});
}

const char* name_of(search::TraceEntry::Fate fate) {
  switch (fate) {
    case search::TraceEntry::Fate::kept:
      return "kept";
    case search::TraceEntry::Fate::finished:
      return "finished";
    case search::TraceEntry::Fate::pruned:
      break;
  }
  return "pruned";
}

Json hypothesis_json(const TranslatedHypothesis& one, const TranslationFields& fields) {
  Json object{{"text", one.text}, {"score", one.hypothesis.score}};
  if (fields.scores || fields.alignment) object["tokens"] = one.tokens;
  if (fields.scores) {
    object["log_probability"] = one.hypothesis.log_probability;
    object["complete"] = one.hypothesis.complete;
    object["token_log_probabilities"] = one.hypothesis.token_log_probabilities;
  }
  if (fields.alignment) object["alignment"] = one.alignment;
  return object;
}

}  // namespace

std::string to_json(const Translation& translation, const TranslationFields& fields) {
  return object_of(translation, [&] {
    Json object{{"translation", translation.text}};
    if (translation.truncated) object["truncated"] = true;
    if (fields.alignment) object["source_tokens"] = translation.source_pieces;
    object["hypotheses"] = Json::array();
    for (const TranslatedHypothesis& one : translation.hypotheses)
      object["hypotheses"].push_back(hypothesis_json(one, fields));
    return object;
  });
}

std::string to_json(const search::SearchTrace& trace, const text::TranslationTokenizer& tokenizer) {
  Json steps = Json::array();
  std::vector<std::vector<std::string>> kept{{}}, next;  // the tokens of the continued hypotheses
  for (const auto& step : trace.steps) {
    Json entries = Json::array();
    next.clear();
    for (const search::TraceEntry& entry : step) {
      const std::vector<std::string>& hypothesis = kept.at(static_cast<size_t>(entry.row));
      const std::string token(tokenizer.piece(entry.id));
      entries.push_back({{"hypothesis", hypothesis},
                         {"token", token},
                         {"log_probability", entry.log_probability},
                         {"total", entry.total},
                         {"penalty", entry.penalty},
                         {"coverage", entry.coverage},
                         {"score", entry.score},
                         {"fate", name_of(entry.fate)}});
      if (entry.fate != search::TraceEntry::Fate::kept) continue;
      next.push_back(hypothesis);
      next.back().push_back(token);
    }
    kept = next;
    steps.push_back(std::move(entries));
  }
  return dump({{"steps", std::move(steps)}});
}

std::string to_json(const Generated& generated) {
  return object_of(generated, [&] {
    Json texts = Json::array();
    for (const Completion& one : generated.completions) {
      texts.push_back({{"text", one.text},
                       {"complete", one.hypothesis.complete},
                       {"log_probability", one.hypothesis.log_probability},
                       {"ids", one.hypothesis.ids},
                       {"token_log_probabilities", one.hypothesis.token_log_probabilities}});
    }
    return Json{{"prompt_tokens", generated.prompt_tokens}, {"texts", std::move(texts)}};
  });
}

std::string to_json(const ScoredText& scored) {
  return object_of(scored, [&] {
    return Json{{"log_probability", scored.log_probability},
                {"perplexity", scored.perplexity},
                {"tokens", scored.tokens},
                {"token_log_probabilities", scored.log_probabilities}};
  });
}

std::string to_json(const Classified& classified, size_t top) {
  return object_of(classified, [&] {
    Json labels = Json::array();
    for (const auto& [label, probability] :
         std::span(classified.labels).first(std::min(top, classified.labels.size()))) {
      labels.push_back({{"label", label}, {"probability", probability}});
    }
    return Json{{"labels", std::move(labels)}};
  });
}

std::string to_json(const TaggedText& tagged) {
  return object_of(tagged, [&] {
    Json tokens = Json::array();
    for (const TaggedToken& token : tagged.tokens) {
      tokens.push_back({{"text", token.text},
                        {"begin", token.begin},
                        {"end", token.end},
                        {"label", token.label.label},
                        {"probability", token.label.probability}});
    }
    return Json{{tagged.words ? "words" : "tokens", std::move(tokens)}};
  });
}

std::string to_json(const AnsweredText& answered) {
  return object_of(answered, [&] {
    Json answers = Json::array();
    for (const Answer& one : answered.answers) {
      answers.push_back(
          {{"text", one.text}, {"begin", one.begin}, {"end", one.end}, {"probability", one.probability}});
    }
    return Json{{"answers", std::move(answers)}};
  });
}

std::string to_json(const FilledText& filled) {
  return object_of(filled, [&] {
    Json masks = Json::array();
    for (const auto& predictions : filled.masks) {
      Json list = Json::array();
      for (const MaskPrediction& one : predictions) {
        list.push_back(
            {{"token", one.token}, {"id", one.id}, {"probability", one.probability}, {"text", one.text}});
      }
      masks.push_back(std::move(list));
    }
    return Json{{"masks", std::move(masks)}};
  });
}

std::string to_json(const Embedded& embedded) {
  return object_of(embedded, [&] { return Json{{"vector", embedded.values}}; });
}

std::string to_json(const SparseEmbedded& embedded) {
  return object_of(embedded, [&] {
    Json weights = Json::array();
    for (const TokenWeight& one : embedded.weights)
      weights.push_back({{"token", one.token}, {"id", one.id}, {"weight", one.weight}});
    return Json{{"weights", std::move(weights)}};
  });
}

std::string to_json(const Reranked& reranked, const std::optional<std::string>& text) {
  return object_of(reranked, [&] {
    Json object{{"score", reranked.score}};
    if (text) object["text"] = *text;
    return object;
  });
}

std::string to_json(const metrics::BleuResult& bleu, const metrics::BleuOptions& options) {
  return dump({{"score", bleu.score},
               {"signature", signature(bleu, options)},
               {"precisions", bleu.precisions},
               {"brevity_penalty", bleu.brevity_penalty},
               {"hypothesis_length", bleu.hypothesis_length},
               {"reference_length", bleu.reference_length}});
}

std::string to_json(const metrics::ChrfResult& chrf, const metrics::ChrfOptions& options) {
  return dump({{"score", chrf.score}, {"signature", signature(chrf, options)}});
}

std::string to_json(const text::Encoding& encoding, const text::Tokenizer& tokenizer) {
  Json tokens = Json::array(), offsets = Json::array();
  for (const int32_t id : encoding.ids) tokens.push_back(tokenizer.token(id).value_or(""));
  for (const text::ByteRange range : encoding.offsets) offsets.push_back({range.begin, range.end});
  return dump({{"ids", encoding.ids},
               {"tokens", tokens},
               {"offsets", offsets},
               {"type_ids", encoding.type_ids},
               {"special_mask", encoding.special_mask},
               {"text_index", encoding.text_index},
               {"word_index", encoding.word_index}});
}

std::string with_line(int64_t line, const std::string& object, const std::string& file) {
  return concat("{\"line\":", line, ",", file.empty() ? "" : concat("\"file\":", dump(Json(file)), ","),
                object.substr(1));
}

}  // namespace qkv::pipelines
