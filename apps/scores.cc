#include "apps/scores.h"

#include <nlohmann/json.hpp>

#include "apps/cli/messages.h"
#include "qkv/base/error.h"
#include "qkv/metrics/bleu.h"
#include "qkv/metrics/chrf.h"
#include "qkv/pipelines/json.h"
#include "qkv/text/lines.h"

namespace qkv::apps {

void add_score_options(Command& command, ScoreArguments& arguments) {
  command.add_flag("--chrf", arguments.chrf_only, "Compute only chrF2, not BLEU");
  command.add_flag("--lowercase", arguments.lowercase, "Ignore case");
  add_option(command, "--width", arguments.width, "DIGITS", "Decimals, 0 to 15")->check(in_range(0, 15));
  command.add_flag("--json", arguments.json, "Print one JSON object, with all digits");
}

std::vector<std::string> read_lines(const std::string& path) {
  if (path == "-") announce_stdin();
  text::LineReader reader(path);
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
  using nlohmann::ordered_json;
  ordered_json result;
  if (!arguments.chrf_only) {
    const metrics::BleuOptions options{.lowercase = arguments.lowercase};
    result["bleu"] =
        ordered_json::parse(pipelines::to_json(corpus_bleu(hypotheses, reference_sets, options), options));
  }
  const metrics::ChrfOptions options{.lowercase = arguments.lowercase};
  result["chrf2"] =
      ordered_json::parse(pipelines::to_json(corpus_chrf(hypotheses, reference_sets, options), options));
  return result;
}

}  // namespace qkv::apps
