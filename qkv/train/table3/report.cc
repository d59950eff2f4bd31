#include "qkv/train/table3/report.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "qkv/base/error.h"

namespace qkv::train {
namespace {

std::string digits_of(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

// The 97.5 % quantile of Student's t. Beyond 30 degrees of freedom: the first terms of its expansion.
double student_t(int64_t degrees) {
  static constexpr std::array kQuantiles{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                         2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                         2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                         2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees <= std::ssize(kQuantiles)) return kQuantiles.at(static_cast<size_t>(degrees - 1));
  const auto n = static_cast<double>(degrees);
  return 1.960 + 2.372 / n + 2.822 / (n * n);
}

double loss_of(const Table3Run& run) { return run.loss; }
double bleu_of(const Table3Run& run) { return run.bleu; }

// A metric of all rows.
class Pooled {
 public:
  Pooled(const std::vector<Table3ReportRow>& rows, double (*value)(const Table3Run&)) : value_(value) {
    double squares = 0;
    int64_t degrees = 0;
    for (const Table3ReportRow& row : rows) {
      if (row.runs.empty()) continue;
      const double center = mean(row);
      for (const Table3Run& run : row.runs) squares += (value(run) - center) * (value(run) - center);
      degrees += std::ssize(row.runs) - 1;
    }
    if (degrees > 0) scale_ = student_t(degrees) * std::sqrt(squares / static_cast<double>(degrees));
  }

  double mean(const Table3ReportRow& row) const {
    double sum = 0;
    for (const Table3Run& run : row.runs) sum += value_(run);
    return sum / static_cast<double>(row.runs.size());
  }

  // `paper`: the paper's difference from base, of the same sign as of the metric.
  std::optional<Table3Metric> metric(const Table3ReportRow& row, const Table3ReportRow* base,
                                     double paper) const {
    if (row.runs.empty()) return std::nullopt;
    const double own = 1 / static_cast<double>(row.runs.size());
    Table3Metric result{.mean = mean(row), .half_width = width(own), .order = std::nullopt};
    if (!base || base->runs.empty() || row.row.name == base->row.name) return result;
    Table3Order order;
    order.difference = result.mean - mean(*base);
    order.half_width = width(own + 1 / static_cast<double>(base->runs.size()));
    order.equal_in_paper = paper == 0;
    order.agrees = paper * order.difference > 0;
    result.order = order;
    return result;
  }

 private:
  std::optional<double> width(double variance) const {
    if (!scale_) return std::nullopt;
    return *scale_ * std::sqrt(variance);
  }

  double (*value_)(const Table3Run&);
  std::optional<double> scale_;
};

Table3Agreement agreement_of(const std::vector<Table3ReportRow>& rows,
                             std::optional<Table3Metric> Table3ReportRow::*metric, double Table3Row::*paper) {
  Table3Agreement result;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::optional<Table3Metric>& one = rows[i].*metric;
    if (!one) continue;
    if (one->order && !one->order->equal_in_paper) {
      ++result.rows;
      result.agreeing += one->order->agrees ? 1 : 0;
      if (!one->order->agrees) result.disagreeing.push_back(rows[i].row.name);
    }
    for (size_t j = 0; j < i; ++j) {
      const std::optional<Table3Metric>& other = rows[j].*metric;
      const double difference = rows[i].row.*paper - rows[j].row.*paper;
      if (!other || difference == 0) continue;
      ++result.pairs;
      result.agreeing_pairs += difference * (one->mean - other->mean) > 0 ? 1 : 0;
    }
  }
  return result;
}

std::string with_interval(double mean, const std::optional<double>& half_width, int digits) {
  return half_width ? concat(digits_of(mean, digits), " ± ", digits_of(*half_width, digits))
                    : digits_of(mean, digits);
}

std::string order_cell(const std::optional<Table3Metric>& metric) {
  if (!metric || !metric->order) return "";
  if (metric->order->equal_in_paper) return "tie";
  return concat(metric->order->agrees ? "yes" : "no", metric->order->open() ? "?" : "");
}

std::string thousands(int64_t parameters) {
  const double number = static_cast<double>(parameters);
  return number < 999'500 ? digits_of(number / 1e3, 0) + "K"
                          : digits_of(number / 1e6, number < 9.995e6 ? 2 : 1) + "M";
}

std::string conclusion(const char* name, const Table3Agreement& agreement, const Table3Report& report,
                       std::optional<Table3Metric> Table3ReportRow::*metric) {
  std::string text = concat(name, ": ", agreement.agreeing, " of ", agreement.rows,
                            " rows are on the same side of base as in the paper");
  std::string names;
  for (const Table3ReportRow& row : report.rows) {
    const std::optional<Table3Metric>& value = row.*metric;
    if (!value || !value->order || value->order->equal_in_paper || value->order->agrees) continue;
    names += concat(names.empty() ? "" : ", ", row.row.name, value->order->open() ? "?" : "");
  }
  if (!names.empty()) text += "; not " + names;
  return concat(text, ". ", agreement.agreeing_pairs, " of ", agreement.pairs,
                " pairs of rows are in the paper's order.");
}

}  // namespace

double Table3ReportRow::perplexity() const { return loss ? std::exp(loss->mean) : 0; }

std::optional<double> Table3ReportRow::perplexity_half_width() const {
  if (!loss || !loss->half_width) return std::nullopt;
  return perplexity() * std::expm1(*loss->half_width);
}

Table3Report summarise(const Table3Results& results) {
  Table3Report report{.options = results.options,
                      .rows = {},
                      .runs = std::ssize(results.runs),
                      .planned = std::ssize(results.rows) * results.options.seeds,
                      .finished = results.finished,
                      .perplexity = {},
                      .bleu = {}};
  const double uniform = std::log(static_cast<double>(table3_vocabulary(results.options.scale)));
  for (const Table3Row& row : results.rows) {
    Table3ReportRow line;
    line.row = row;
    for (const Table3Run& run : results.runs) {
      if (run.row != row.name) continue;
      line.parameters = run.parameters;
      if (run.failure.empty() && run.loss <= uniform) {
        line.runs.push_back(run);
      } else {
        line.diverged.push_back(run);
        ++line.failures;
      }
    }
    report.rows.push_back(std::move(line));
  }
  const Pooled loss(report.rows, loss_of), bleu(report.rows, bleu_of);
  const Table3ReportRow* base = nullptr;
  for (const Table3ReportRow& row : report.rows) {
    if (row.row.name == "base") base = &row;
  }
  for (Table3ReportRow& row : report.rows) {
    row.loss = loss.metric(row, base, base ? row.row.perplexity - base->row.perplexity : 0);
    row.bleu = bleu.metric(row, base, base ? row.row.bleu - base->row.bleu : 0);
  }
  report.perplexity = agreement_of(report.rows, &Table3ReportRow::loss, &Table3Row::perplexity);
  report.bleu = agreement_of(report.rows, &Table3ReportRow::bleu, &Table3Row::bleu);
  return report;
}

std::string table3_changes(const Table3Row& row, int64_t scale) {
  require_table3_scale(scale);
  const Table3Row base;
  const bool all = row.name == "base";
  std::string text;
  const auto add = [&](const char* name, const auto& value, const auto& of_base) {
    if (all || value != of_base) text += concat(text.empty() ? "" : ", ", name, " ", value);
  };
  add("N", row.layers, base.layers);
  add("d_model", row.d_model / scale, base.d_model / scale);
  add("d_ff", row.d_ff / scale, base.d_ff / scale);
  add("h", row.heads, base.heads);
  add("d_k", row.d_k / scale, base.d_k / scale);
  add("d_v", row.d_v / scale, base.d_v / scale);
  add("dropout", row.dropout, base.dropout);
  add("smoothing", row.label_smoothing, base.label_smoothing);
  if (row.learned_positions) text += concat(text.empty() ? "" : ", ", "learned positions");
  if (row.steps != base.steps) text += concat(", ", row.steps / base.steps, " times the steps");
  return text;
}

std::vector<std::vector<std::string>> table3_cells(const Table3Report& report) {
  std::vector<std::vector<std::string>> table{{"row", "model", "parameters", "perplexity", "BLEU",
                                               "paper: 10^6", "perplexity", "BLEU", "order by perplexity",
                                               "by BLEU"}};
  for (const Table3ReportRow& row : report.rows) {
    const std::string missing = row.failures > 0 ? "diverged" : "-";
    const std::string failed = row.failures > 0 && row.loss ? concat(" (", row.failures, " diverged)") : "";
    table.push_back(
        {row.row.name, table3_changes(row.row, report.options.scale),
         row.parameters > 0 ? thousands(row.parameters) : "-",
         row.loss ? with_interval(row.perplexity(), row.perplexity_half_width(), 2) + failed : missing,
         row.bleu ? with_interval(row.bleu->mean, row.bleu->half_width, 1) : missing,
         row.row.millions ? std::to_string(*row.row.millions) : "", digits_of(row.row.perplexity, 2),
         digits_of(row.row.bleu, 1), order_cell(row.loss), order_cell(row.bleu)});
  }
  return table;
}

std::vector<std::string> table3_conclusions(const Table3Report& report) {
  std::vector<std::string> lines;
  if (!report.finished)
    lines.push_back(concat("Not finished: ", report.runs, " of ", report.planned, " runs."));
  if (report.perplexity.pairs == 0 && report.bleu.pairs == 0) return lines;  // too few rows
  lines.push_back(conclusion("Perplexity", report.perplexity, report, &Table3ReportRow::loss));
  lines.push_back(conclusion("BLEU", report.bleu, report, &Table3ReportRow::bleu));
  if (report.rows.front().loss && report.rows.front().loss->half_width)
    lines.emplace_back(
        "±: 95 % intervals of the means; ?: the interval of the difference from base includes 0.");
  int64_t failures = 0;
  for (const Table3ReportRow& row : report.rows) failures += row.failures;
  if (failures > 0)
    lines.push_back(
        concat("diverged: the loss is not finite, or the perplexity is above that of a uniform guess, ",
               table3_vocabulary(report.options.scale), "."));
  return lines;
}

std::string table3_markdown(const Table3Report& report) {
  const Table3Options& options = report.options;
  std::string text =
      concat("# Table 3 of Vaswani et al. 2017 at scale 1/", options.scale, "\n\n", options.steps,
             " steps of ", options.batch_tokens, " tokens, ", options.warmup_steps, " of them warm-up, ",
             options.rate_factor, " times the paper's learning rates, ", options.source_lang, " to ",
             options.target_lang, ", vocabulary of at most ", table3_vocabulary(options.scale),
             " pieces; perplexity per piece and BLEU (beam 4) of the validation text; seeds 1 to ",
             options.seeds, ".\n\n");
  const auto table = table3_cells(report);
  for (size_t i = 0; i < table.size(); ++i) {
    for (const std::string& cell : table[i]) text += concat("| ", cell, cell.empty() ? "" : " ");
    text += "|\n";
    if (i > 0) continue;
    for (size_t column = 0; column < table[i].size(); ++column) text += column < 2 ? "| --- " : "| ---: ";
    text += "|\n";
  }
  text += "\n";
  for (const std::string& line : table3_conclusions(report)) text += line + "\n";
  return text;
}

std::string table3_tsv(const Table3Report& report) {
  std::string text = "row\tseed\tparameters\tsteps\tperplexity\tbleu\tpaper_perplexity\tpaper_bleu\n";
  for (const Table3ReportRow& row : report.rows) {
    const auto add = [&](const Table3Run& run, const std::string& perplexity, const std::string& bleu) {
      text += concat(run.row, "\t", run.seed, "\t", run.parameters, "\t", run.steps, "\t", perplexity, "\t",
                     bleu, "\t", digits_of(row.row.perplexity, 2), "\t", digits_of(row.row.bleu, 1), "\n");
    };
    for (const Table3Run& run : row.runs) add(run, digits_of(std::exp(run.loss), 4), digits_of(run.bleu, 2));
    for (const Table3Run& run : row.diverged) add(run, "diverged", "diverged");
  }
  return text;
}

}  // namespace qkv::train
