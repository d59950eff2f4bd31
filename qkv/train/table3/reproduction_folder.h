#pragma once
// The files of a reproduction: its texts, its settings, and what its runs leave.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "qkv/data/corpus.h"
#include "qkv/train/table3/reproduce.h"

namespace qkv::train {

inline constexpr int64_t kMaxTable3Seeds = 1000;

struct Table3Files {
  data::CorpusFiles train, valid;
};

// Throws IoError naming a text that the folder lacks.
Table3Files table3_files(const Table3Options& options);

// Changes with any byte of the texts.
std::string fingerprint_of(const Table3Files& files);

struct SavedTable3 {
  Table3Options options;
  std::string fingerprint;  // of the data
  // nn::kResidualStart of the version that made the runs; 1: one without it.
  double residual_start = 1;
};

// Nothing if the folder holds no reproduction. Throws DataError for damaged settings.
std::optional<SavedTable3> read_table3(const std::filesystem::path& folder);
void write_table3(const std::filesystem::path& folder, const Table3Options& options,
                  const std::string& fingerprint);

// Throws UsageError unless the folder is new or holds a reproduction of these settings.
void require_same_reproduction(const std::filesystem::path& folder, const Table3Options& options,
                               const std::string& fingerprint);

// All rows have one vocabulary.
std::filesystem::path table3_vocabulary_file(const std::filesystem::path& folder);

std::filesystem::path folder_of_run(const std::filesystem::path& folder, const std::string& row,
                                    uint64_t seed);

// The result of a run's folder; nothing if the run has not finished. Throws DataError for a damaged one.
std::optional<Table3Run> read_result(const std::filesystem::path& folder);

// The mark of a finished run.
void write_result(const std::filesystem::path& folder, const Table3Run& run);

// Removes what only an unfinished run needs.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace qkv::train
