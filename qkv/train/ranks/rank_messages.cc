#include "qkv/train/ranks/rank_messages.h"

#include <string>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/hash.h"
#include "qkv/kernels/instruction_set.h"

namespace qkv::train {

using nlohmann::json;

std::vector<json> all_gather(Communicator& ranks, const json& own) {
  std::string text;
  json::to_cbor(own, text);
  std::vector<json> all;
  for (const std::string& one : ranks.all_gather(text)) all.push_back(json::from_cbor(one));
  return all;
}

json to_json(const Share& share) {
  json curves = json::array();
  for (const auto& batch : share.curves) {
    json& list = curves.emplace_back(json::array());
    for (const CurveShare& curve : batch) list.push_back({curve.name, curve.sum, curve.count});
  }
  json message{
      {"curves", curves}, {"stop", share.stop}, {"seconds", share.seconds}, {"computing", share.computing}};
  try {
    if (share.error) std::rethrow_exception(share.error);
  } catch (const NumericError& error) {
    message["not_finite"] = error.what();
  } catch (const std::exception& error) {
    message["error"] = error.what();
  }
  return message;
}

void take_shares(Communicator& ranks, const std::vector<json>& all, StepResult& result) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const std::string where = ranks.name(static_cast<int>(rank));
    if (all[rank].contains("not_finite"))
      throw NumericError(concat(all[rank]["not_finite"].get<std::string>(), ", on ", where));
    if (all[rank].contains("error")) {
      if (!ranks.is_root()) throw RankError(concat(where, " has failed"));  // the root reports it
      throw Error(concat(where, ": ", all[rank]["error"].get<std::string>()));
    }
    for (const json& batch : all[rank]["curves"]) {
      std::vector<CurveShare>& curves = result.curves.emplace_back();
      for (const json& curve : batch) curves.push_back({curve[0], curve[1], curve[2]});
    }
    result.stop = result.stop || all[rank]["stop"].get<bool>();
  }
}

namespace {

constexpr const char* kProgram = "program";

std::string hash_of_program() {
  Hash64 hash;
  const MappedFile program("/proc/self/exe", MapFor::reading);
  hash.add(program.data(), program.size());
  return std::to_string(hash.value());
}

}  // namespace

void require_equal_ranks(Communicator& ranks, const Task& task, const TrainOptions& options) {
  json own{{kProgram, hash_of_program()},
           {"instruction set", kernels::name_of(kernels::instruction_set())},
           {"task", task.info().name}};
  for (const Field& field : task.fields())
    if (field.decides_weights) own[field.name] = field.value;
  for (const Field& field : fields(options))  // of which the schedule concerns the root only
    if (field.decides_weights && !field.name.starts_with("schedule.")) own[field.name] = field.value;
  const std::vector<json> all = all_gather(ranks, own);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    for (const auto& [name, expected] : all[0].items()) {
      const json found = all[rank].value(name, json());
      if (found == expected) continue;
      if (!ranks.is_root()) throw RankError(concat(name, " differs"));  // the root reports it
      if (name == kProgram) {
        throw UsageError(concat("expected the same build of qkv on all ranks, found another on ",
                                ranks.name(static_cast<int>(rank)), " than on ", ranks.name(0)));
      }
      if (name.ends_with(".fingerprint")) {
        throw UsageError(concat(name, ": expected the same data on all ranks, found others on ",
                                ranks.name(static_cast<int>(rank)), " than on ", ranks.name(0)));
      }
      throw UsageError(concat(name, ": expected ", expected.dump(), " as on ", ranks.name(0), ", found ",
                              found.dump(), " on ", ranks.name(static_cast<int>(rank))));
    }
  }
}

}  // namespace qkv::train
