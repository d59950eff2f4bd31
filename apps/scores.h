#pragma once
// Computing and printing of BLEU and chrF2 by the commands.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/command.h"

namespace qkv::apps {

struct ScoreArguments {
  bool chrf_only = false, lowercase = false, json = false;
  int width = 2;  // decimals
};

// --chrf, --lowercase, --width and --json. `arguments` must live as long as the command.
void add_score_options(Command& command, ScoreArguments& arguments);

// The lines of a UTF-8 file; "-" is stdin. Throws IoError, and DataError for invalid UTF-8 and an empty file.
std::vector<std::string> read_lines(const std::string& path);

// Throws DataError naming both files if their numbers of lines differ.
void require_as_many_lines(const std::string& path, size_t lines, const std::string& other,
                           size_t other_lines);

// One line per score, as printed by sacreBLEU.
std::string score_text(const std::vector<std::string>& hypotheses,
                       const std::vector<std::vector<std::string>>& reference_sets,
                       const ScoreArguments& arguments);

// {"bleu": {"score", "signature", "precisions", ...}, "chrf2": {"score", "signature"}}, unrounded.
nlohmann::ordered_json score_json(const std::vector<std::string>& hypotheses,
                                  const std::vector<std::vector<std::string>>& reference_sets,
                                  const ScoreArguments& arguments);

}  // namespace qkv::apps
