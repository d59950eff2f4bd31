#include "apps/scores.h"

#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/metrics/bleu.h"
#include "qkv/metrics/chrf.h"
#include "qkv/text/lines.h"

namespace qkv::apps {

void add_score_options(CLI::App& command, ScoreArguments& arguments) {
  command.add_flag("--chrf", arguments.chrf_only, "Only chrF2, not BLEU");
  command.add_flag("--lowercase", arguments.lowercase, "Compare without regard to case");
  command.add_option("--width", arguments.width, "Digits after the point")
      ->check(CLI::Range(0, 15))
      ->capture_default_str();
  command.add_flag("--json", arguments.json, "Print one JSON object, with all digits");
}

std::vector<std::string> read_lines(const std::string& path) {
  text::LineReader reader(path == "-" ? "/dev/stdin" : path);
  std::vector<std::string> lines;
  for (std::string line; reader.next(line);) {
    reader.require_utf8(line);
    lines.push_back(std::move(line));
  }
  if (lines.empty()) {
    throw DataError(concat(reader.path().string(), ": expected lines of text, found an empty file"));
  }
  return lines;
}

void require_as_many_lines(const std::string& path, size_t lines, const std::string& other,
                           size_t other_lines) {
  if (lines == other_lines) return;
  throw DataError(concat(other, ": expected ", lines, " lines, as ", path, " has, found ", other_lines));
}

std::string score_text(const std::vector<std::string>& hypotheses,
                       const std::vector<std::vector<std::string>>& reference_sets,
                       const ScoreArguments& arguments) {
  std::string text;
  if (!arguments.chrf_only) {
    const metrics::BleuOptions options{.lowercase = arguments.lowercase};
    text += format(corpus_bleu(hypotheses, reference_sets, options), options, arguments.width) + "\n";
  }
  const metrics::ChrfOptions options{.lowercase = arguments.lowercase};
  return text + format(corpus_chrf(hypotheses, reference_sets, options), options, arguments.width) + "\n";
}

nlohmann::ordered_json score_json(const std::vector<std::string>& hypotheses,
                                  const std::vector<std::vector<std::string>>& reference_sets,
                                  const ScoreArguments& arguments) {
  nlohmann::ordered_json result;
  if (!arguments.chrf_only) {
    const metrics::BleuOptions options{.lowercase = arguments.lowercase};
    const metrics::BleuResult bleu = corpus_bleu(hypotheses, reference_sets, options);
    result["bleu"] = {{"score", bleu.score},
                      {"signature", signature(bleu, options)},
                      {"precisions", bleu.precisions},
                      {"brevity_penalty", bleu.brevity_penalty},
                      {"hypothesis_length", bleu.hypothesis_length},
                      {"reference_length", bleu.reference_length}};
  }
  const metrics::ChrfOptions options{.lowercase = arguments.lowercase};
  const metrics::ChrfResult chrf = corpus_chrf(hypotheses, reference_sets, options);
  result["chrf2"] = {{"score", chrf.score}, {"signature", signature(chrf, options)}};
  return result;
}

}  // namespace qkv::apps
