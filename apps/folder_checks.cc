#include "apps/folder_checks.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/models/hub/verify.h"
#include "qkv/pipelines/proof/proof.h"

namespace qkv::apps {
namespace {

using Json = nlohmann::ordered_json;

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

// "model.safetensors: 21 tensors match their checksums"
std::string verdict_on(const models::VerifiedFile& file) {
  const io::ChecksumReport& report = file.report;
  const std::string name = file.path.filename().string() + ": ";
  if (!report.carries_checksums())
    return concat(name, "carries no checksums (", report.unchecked.size(), " tensors)");
  if (report.good()) return concat(name, report.matching, " tensors match their checksums");
  std::vector<std::string> parts;
  if (!report.differing.empty())
    parts.push_back("differs from its checksum: " + joined(report.differing, ", "));
  if (!report.missing.empty()) parts.push_back("missing: " + joined(report.missing, ", "));
  if (!report.unchecked.empty()) parts.push_back("without a checksum: " + joined(report.unchecked, ", "));
  return name + joined(parts, "; ");
}

}  // namespace

void verify_folder_weights(const std::string& folder, bool json) {
  Json files = Json::array();
  std::vector<std::string> bad;
  for (const models::VerifiedFile& file : models::verify_weights(folder)) {
    const io::ChecksumReport& report = file.report;
    if (!report.good()) bad.push_back(verdict_on(file));
    if (!json) {
      std::cout << verdict_on(file) << '\n';
      continue;
    }
    files.push_back({{"file", file.path.filename().string()},
                     {"good", report.good()},
                     {"matching", report.matching},
                     {"differing", report.differing},
                     {"missing", report.missing},
                     {"unchecked", report.unchecked}});
  }
  if (json) std::cout << Json{{"model", folder}, {"good", bad.empty()}, {"files", files}}.dump(2) << '\n';
  if (!bad.empty()) throw DataError(concat(folder, ": ", joined(bad, "; ")));
}

void self_test_folder(const std::string& folder, Device device, bool json) {
  models::refuse_gguf(folder, "model");
  if (!std::filesystem::is_directory(folder))
    throw IoError(concat("model folder ", folder, ": there is no such folder"));
  const pipelines::ProofReport report = pipelines::check_proof(folder, device);
  if (json) {
    std::cout << Json{{"model", folder},
                      {"good", report.good()},
                      {"held", report.held},
                      {"parted", report.parted}}
                     .dump(2, ' ', false, Json::error_handler_t::replace)
              << '\n';
  } else {
    for (const std::string& line : report.held) std::cout << "ok      " << line << '\n';
    for (const std::string& line : report.parted) std::cout << "FAILED  " << line << '\n';
  }
  if (!report.good()) {
    throw DataError(concat(
        folder, ": expected agreement with ", pipelines::kProofFile, ", found ", report.parted.size(),
        report.parted.size() == 1 ? " difference: " : " differences, the first: ", report.parted.front()));
  }
}

}  // namespace qkv::apps
