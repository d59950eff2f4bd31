#include "qkv/pipelines/proof/proof.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/copies.h"
#include "tests/support/devices.h"
#include "tests/support/golden.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::message_of;
using testing::Scratch;

const fs::path kHub = fs::path(QKV_TEST_DATA) / "apps/golden/hub";

// A folder written by qkv, with its proof.
class Proof : public ::testing::Test {
 protected:
  fs::path make(const std::string& name, DType dtype = DType::bf16) const {
    const fs::path folder = scratch_ / concat(name, "-", static_cast<int>(dtype));
    models::quantize_folder(kHub / name, folder, dtype, write_proof);
    return folder;
  }

  static void replace(const fs::path& file, const std::string& before, const std::string& after) {
    std::string text = read_file(file);
    const size_t at = text.find(before);
    ASSERT_NE(at, std::string::npos) << before;
    write_file_atomically(file, text.replace(at, before.size(), after));
  }

  static std::string parted(const fs::path& folder) {
    std::string all;
    for (const std::string& line : check_proof(folder).parted) all += line + "\n";
    return all;
  }

  static void expect_parts(const fs::path& folder, std::initializer_list<const char*> parts) {
    const std::string found = parted(folder);
    for (const char* const part : parts)
      EXPECT_NE(found.find(part), std::string::npos) << part << "\nin\n" << found;
  }

  Scratch scratch_;
};

TEST_F(Proof, HoldsForEachFamilyAndDtype) {
  int64_t folders = 0;
  for (const char* const name : {"opus-mt-en-de", "t5-small", "gpt2", "SmolLM2-135M", "bert-base-uncased",
                                 "roberta-base", "bert-base-NER", "vit-of-today"}) {
    for (const DType dtype : {DType::bf16, DType::i8}) {
      const fs::path folder = make(name, dtype);
      const ProofReport report = check_proof(folder);
      EXPECT_TRUE(report.good()) << name << ": " << parted(folder);
      EXPECT_GE(report.held.size(), 3u) << name;
      EXPECT_NE(report.held.back().find("have the same bits"), std::string::npos) << report.held.back();
      EXPECT_LT(fs::file_size(folder / kProofFile), 20'000u) << name;
      for (const Device device : kDevices) {
        if (device == Device::cpu || !testing::has_backend(device)) continue;
        const ProofReport there = check_proof(folder, device);
        EXPECT_TRUE(there.good()) << name << " on " << name_of(device) << ": "
                                  << (there.good() ? "" : there.parted.front());
      }
      const std::string first = read_file(folder / kProofFile);
      write_proof(folder);
      EXPECT_EQ(read_file(folder / kProofFile), first) << name;
      ++folders;
    }
  }
  EXPECT_EQ(folders, 16);
}

TEST_F(Proof, NamesTheTensorWithAFlippedBit) {
  const fs::path folder = make("opus-mt-en-de"), weights = folder / "model.safetensors";
  std::string bytes = read_file(weights);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  const std::vector<std::string> names = io::SafetensorsFile(weights).names();
  write_file_atomically(weights, bytes);
  const std::string found = parted(folder);
  EXPECT_EQ(std::ranges::count_if(names,
                                  [&](const std::string& name) {
                                    return found.find("model.safetensors: " + name + ": its bytes") !=
                                           std::string::npos;
                                  }),
            1)
      << found;
}

TEST_F(Proof, NamesOutputsChangedByOtherWeights) {
  // With a valid checksum: only the header and the outputs differ.
  const fs::path folder = make("gpt2"), other = make("SmolLM2-135M");
  std::string proof = read_file(folder / kProofFile);
  json changed = json::parse(proof);
  double& sample = changed["numbers"][0]["outputs"][0]["samples"][3].get_ref<double&>();
  sample += 0.01;
  changed["numbers"][0]["outputs"][0]["crc32c"] = "00000000";
  write_file_atomically(folder / kProofFile, changed.dump());
  expect_parts(folder, {"case text, logits: row ", "to the bit"});
  fs::copy_file(other / "model.safetensors", folder / "model.safetensors",
                fs::copy_options::overwrite_existing);
  expect_parts(folder, {"model.safetensors: expected the bytes of the export"});
}

TEST_F(Proof, NamesTheTokenizersEntry) {
  const fs::path folder = make("opus-mt-en-de");
  const json vocabulary = json::parse(read_file(folder / "vocab.json"));
  std::string token;
  int id = 0;
  for (const auto& [key, value] : vocabulary.items()) {
    if (value > 5 && key.size() == 1) token = key, id = value;
  }
  ASSERT_FALSE(token.empty());
  replace(folder / "vocab.json", concat("\"", token, "\":"), "\"qkv\":");
  expect_parts(folder,
               {"vocab.json: expected the bytes of the export",
                concat("vocabulary: id ", id, ": expected the token of the export, found 'qkv'").c_str()});
  const fs::path language = make("gpt2");
  replace(language / "tokenizer.json", "\"vocab\"", " \"vocab\"");
  expect_parts(language, {"tokenizer.json: expected the bytes of the export"});
}

TEST_F(Proof, NamesTheFieldOfAConfiguration) {
  const fs::path folder = make("opus-mt-en-de");
  replace(folder / "config.json", "\"activation_function\": \"silu\"", "\"activation_function\": \"gelu\"");
  expect_parts(folder,
               {"config.json: activation_function: expected \"silu\", found \"gelu\"", "case text, logits"});
  const fs::path other = make("vit-of-today");
  replace(other / "config.json", "\"num_attention_heads\": 2", "\"num_attention_heads\": 4");
  expect_parts(other, {"config.json: num_attention_heads: expected 2, found 4", "hidden"});
  replace(other / "config.json", "\"num_attention_heads\": 4", "\"num_attention_heads\": 3");
  expect_parts(other,
               {"config.json: num_attention_heads: expected 2, found 3", "the folder cannot be opened"});
}

TEST_F(Proof, OtherMachinesMayDifferByRounding) {
  for (const char* const name : {"opus-mt-en-de", "SmolLM2-135M", "bert-base-uncased"}) {
    const fs::path folder = make(name);
    json proof = json::parse(read_file(folder / kProofFile));
    proof["machine"] = "another processor";
    json& output = proof["numbers"][0]["outputs"][0];
    output["crc32c"] = "00000000";
    const auto write = [&](double difference) {
      json changed = proof;
      double& sample = changed["numbers"][0]["outputs"][0]["samples"][5].get_ref<double&>();
      sample += difference;
      write_file_atomically(folder / kProofFile, changed.dump());
    };
    write(0);
    EXPECT_EQ(parted(folder), "") << name;
    EXPECT_NE(check_proof(folder).held.back().find("the proof was written on another processor"),
              std::string::npos);
    write(1e-7);
    EXPECT_EQ(parted(folder), "") << name;
    write(1e-2);
    expect_parts(folder, {"row ", " +- "});
  }
}

TEST_F(Proof, RejectsMissingAndDamagedProofs) {
  const fs::path folder = make("gpt2"), proof = folder / kProofFile;
  const std::string text = read_file(proof);
  write_file_atomically(proof, text.substr(0, text.size() / 2));
  EXPECT_NE(message_of<DataError>([&] { check_proof(folder); }).find("qkv_proof.json: expected JSON"),
            std::string::npos);
  write_file_atomically(proof, "{\"format\": 9}");
  EXPECT_NE(message_of<DataError>([&] { check_proof(folder); }).find("expected format 1, found 9"),
            std::string::npos);
  fs::remove(proof);
  EXPECT_NE(message_of<IoError>([&] { check_proof(folder); }).find("qkv_proof.json: expected the proof"),
            std::string::npos);
  // A proof belongs to one folder and is not copied with it.
  write_proof(folder);
  models::quantize_folder(folder, scratch_ / "copy", DType::i8);
  EXPECT_FALSE(fs::exists(scratch_ / "copy" / kProofFile));
}

}  // namespace
}  // namespace qkv::pipelines
