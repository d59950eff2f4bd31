#include "qkv/train/table3/rows.h"

#include <algorithm>
#include <set>
#include <utility>

#include "qkv/base/error.h"

namespace qkv::train {
namespace {

constexpr int64_t kPaperVocabulary = 37'000, kPaperSteps = 100'000;

std::vector<Table3Row> make_table3_rows() {
  std::vector<Table3Row> rows;
  const auto add = [&rows](std::string name, double perplexity, double bleu, std::optional<int64_t> millions,
                           const auto& change) {
    Table3Row row;
    row.group = name.substr(0, name.find('-'));
    row.name = std::move(name);
    row.perplexity = perplexity;
    row.bleu = bleu;
    row.millions = millions;
    change(row);
    rows.push_back(std::move(row));
  };
  const auto heads = [](int64_t count, int64_t width) {
    return [=](Table3Row& row) {
      row.heads = count;
      row.d_k = row.d_v = width;
    };
  };
  const auto model = [](int64_t width, int64_t head_width) {
    return [=](Table3Row& row) {
      row.d_model = width;
      row.d_k = row.d_v = head_width;
    };
  };
  const auto value = [](auto member, auto to) { return [=](Table3Row& row) { row.*member = to; }; };
  using Row = Table3Row;
  add("base", 4.92, 25.8, 65, [](const Row&) {});
  add("A-h1", 5.29, 24.9, {}, heads(1, 512));
  add("A-h4", 5.00, 25.5, {}, heads(4, 128));
  add("A-h16", 4.91, 25.8, {}, heads(16, 32));
  add("A-h32", 5.01, 25.4, {}, heads(32, 16));
  add("B-dk16", 5.16, 25.1, 58, value(&Row::d_k, int64_t{16}));
  add("B-dk32", 5.01, 25.4, 60, value(&Row::d_k, int64_t{32}));
  add("C-N2", 6.11, 23.7, 36, value(&Row::layers, int64_t{2}));
  add("C-N4", 5.19, 25.3, 50, value(&Row::layers, int64_t{4}));
  add("C-N8", 4.88, 25.5, 80, value(&Row::layers, int64_t{8}));
  add("C-dmodel256", 5.75, 24.5, 28, model(256, 32));
  add("C-dmodel1024", 4.66, 26.0, 168, model(1024, 128));
  add("C-dff1024", 5.12, 25.4, 53, value(&Row::d_ff, int64_t{1024}));
  add("C-dff4096", 4.75, 26.2, 90, value(&Row::d_ff, int64_t{4096}));
  add("D-dropout0", 5.77, 24.6, {}, value(&Row::dropout, 0.0f));
  add("D-dropout0.2", 4.95, 25.5, {}, value(&Row::dropout, 0.2f));
  add("D-smoothing0", 4.67, 25.3, {}, value(&Row::label_smoothing, 0.0f));
  add("D-smoothing0.2", 5.47, 25.7, {}, value(&Row::label_smoothing, 0.2f));
  add("E-learned", 4.92, 25.7, {}, value(&Row::learned_positions, true));
  add("big", 4.33, 26.4, 213, [](Row& row) {
    row.d_model = 1024;
    row.d_ff = 4096;
    row.heads = 16;
    row.dropout = 0.3f;
    row.steps = 300'000;
  });
  return rows;
}

}  // namespace

const std::vector<Table3Row>& table3_rows() {
  static const std::vector<Table3Row> rows = make_table3_rows();
  return rows;
}

std::vector<Table3Row> select_table3_rows(std::span<const std::string> names) {
  const std::vector<Table3Row>& all = table3_rows();
  std::string known;
  std::set<std::string> words;
  for (const Table3Row& row : all) {
    if (words.insert(row.group).second) known += concat(known.empty() ? "" : ", ", row.group);
    if (words.insert(row.name).second) known += concat(", ", row.name);
  }
  for (const std::string& name : names) {
    if (!words.contains(name))
      throw UsageError(concat("rows: expected some of ", known, ", found '", name, "'"));
  }
  std::vector<Table3Row> rows;
  for (const Table3Row& row : all) {
    const bool named = std::ranges::any_of(
        names, [&row](const std::string& name) { return name == row.name || name == row.group; });
    if (row.name == "base" || named || (names.empty() && row.name != "big")) rows.push_back(row);
  }
  return rows;
}

void require_table3_scale(int64_t scale) {
  for (const int64_t allowed : {1, 2, 4, 8, 16}) {
    if (scale == allowed) return;
  }
  throw UsageError(concat("scale: expected 1, 2, 4, 8 or 16, which divide all widths, found ", scale));
}

int64_t table3_vocabulary(int64_t scale) {
  require_table3_scale(scale);
  return kPaperVocabulary / scale;
}

models::TransformerConfig table3_config(const Table3Row& row, int64_t scale) {
  require_table3_scale(scale);
  models::TransformerConfig config = models::preset("base");
  config.encoder_layers = config.decoder_layers = row.layers;
  config.d_model = row.d_model / scale;
  config.d_ff = row.d_ff / scale;
  config.heads = row.heads;
  config.d_k = row.d_k / scale;
  config.d_v = row.d_v / scale;
  config.dropout = config.embedding_dropout = row.dropout;
  config.max_positions = kTable3Positions;
  if (row.learned_positions) config.positions = nn::PositionKind::learned;
  return config;
}

int64_t table3_steps(const Table3Row& row, int64_t steps) { return steps * (row.steps / kPaperSteps); }

}  // namespace qkv::train
