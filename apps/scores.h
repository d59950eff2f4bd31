#pragma once
// BLEU and chrF2 as the commands compute and print them.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/command.h"

namespace qkv::apps {

struct ScoreArguments {
  bool chrf_only = false, lowercase = false, json = false;
  int width = 2;  // digits after the point
};

// --chrf, --lowercase, --width and --json. `arguments` has to live as long as the command.
void add_score_options(CLI::App& command, ScoreArguments& arguments);

// The lines of a UTF-8 file; "-" is stdin. Throws IoError, and DataError for bytes that are not UTF-8 and for
// a file without lines.
std::vector<std::string> read_lines(const std::string& path);

// Throws DataError naming both files where they have not as many lines.
void require_as_many_lines(const std::string& path, size_t lines, const std::string& other,
                           size_t other_lines);

// Text: a line for each score, as sacreBLEU prints it.
std::string score_text(const std::vector<std::string>& hypotheses,
                       const std::vector<std::vector<std::string>>& reference_sets,
                       const ScoreArguments& arguments);

// {"bleu": {"score", "signature", "precisions", ...}, "chrf2": {"score", "signature"}}, unrounded.
nlohmann::ordered_json score_json(const std::vector<std::string>& hypotheses,
                                  const std::vector<std::vector<std::string>>& reference_sets,
                                  const ScoreArguments& arguments);

}  // namespace qkv::apps
