// docs/qkv-format.md describes the fields and tensors that qkv writes.

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <sstream>

#include "qkv/base/files.h"
#include "qkv/models/transformer.h"

namespace {

using namespace qkv;
using namespace qkv::models;

std::string page() {
  return read_file(std::filesystem::path(QKV_TEST_DATA).parent_path() / "docs" / "qkv-format.md");
}

// The cells of a row of a table.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all;
  std::istringstream parts(line.substr(1));
  for (std::string cell; std::getline(parts, cell, '|');) {
    const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
    all.push_back(begin == cell.npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return all;
}

TEST(FormatPage, ListsEveryFieldWithItsDefault) {
  std::map<std::string, std::string> defaults;
  std::istringstream lines(page());
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const std::vector<std::string> row = cells(line);
    if (row.size() != 4) continue;
    // `a`, `b` | values | 1, 2 | meaning
    std::istringstream names(row[0]), values(row[2]);
    std::string value;
    for (std::string name; std::getline(names, name, ',');) {
      if (std::string next; std::getline(values, next, ',')) value = next;
      std::erase_if(name, [](char c) { return c == '`' || c == ' '; });
      std::string given = value;
      std::erase_if(given, [](char c) { return c == '`' || c == ' '; });
      defaults[name] = given;
    }
  }
  const auto all = fields(TransformerConfig());
  EXPECT_EQ(defaults.size(), all.size()) << "the page has a field that is none";
  for (const auto& [name, value] : all) {
    ASSERT_TRUE(defaults.contains(name)) << name;
    if (defaults[name] != "required") {
      EXPECT_EQ(defaults[name], value) << name;
    }
  }
}

TEST(FormatPage, NamesEveryTensor) {
  const std::string text = page();
  TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = 10;
  config.d_model = config.d_ff = 8;
  config.heads = 2;
  config.encoder_layers = config.decoder_layers = 1;
  config.gated = config.final_norm = true;
  int names = 0;
  for (const Tying tying : {Tying::three_way, Tying::two_way, Tying::inputs, Tying::none}) {
    for (const nn::PositionKind positions : {nn::PositionKind::learned, nn::PositionKind::relative}) {
      config.tying = tying;
      config.positions = positions;
      Transformer(config).visit([&](std::string name, const nn::Parameter&) {
        ++names;
        const size_t layer = name.find("layers.0.");
        if (layer == name.npos) {
          name = std::regex_replace(name, std::regex("layer_norm.bias"), "layer_norm.weight");
          EXPECT_NE(text.find("`" + name + "`"), text.npos) << name;
          return;
        }
        // Layers: the parts of the name, as the page abbreviates.
        std::istringstream parts(name.substr(layer + 9));
        for (std::string part; std::getline(parts, part, '.');)
          EXPECT_NE(text.find(part), text.npos) << name << ": " << part;
      });
    }
  }
  EXPECT_GT(names, 100);
}

}  // namespace
