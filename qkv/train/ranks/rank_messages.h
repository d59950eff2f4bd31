#pragma once
// What the ranks of a run tell one another besides numbers: in CBOR, as JSON has neither NaN nor arbitrary
// bytes.

#include <exception>
#include <nlohmann/json.hpp>
#include <vector>

#include "qkv/base/communicator.h"
#include "qkv/train/options.h"
#include "qkv/train/ranks/replica.h"
#include "qkv/train/task.h"

namespace qkv::train {

// The messages of all ranks, by rank.
std::vector<nlohmann::json> all_gather(Communicator& ranks, const nlohmann::json& own);

// What a rank has of a step before the gradients are exchanged.
struct Share {
  std::vector<std::vector<CurveShare>> curves;
  bool stop = false;
  // Of its batches, and without those in which it waited for weights.
  double seconds = 0, computing = 0;
  std::exception_ptr error;
};

nlohmann::json to_json(const Share& share);
// Adds the shares of all ranks to the result. Throws the error of a rank that has failed.
void take_shares(Communicator& ranks, const std::vector<nlohmann::json>& all, StepResult& result);

// Throws UsageError naming the first setting, fact of the data, or build in which a rank differs from the
// root; on the other ranks RankError.
void require_equal_ranks(Communicator& ranks, const Task& task, const TrainOptions& options);

}  // namespace qkv::train
