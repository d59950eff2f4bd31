// qkv evaluate embed

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "apps/tasks/evaluations.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/data/sentence_pairs.h"
#include "qkv/metrics/classification.h"
#include "qkv/pipelines/embed.h"

namespace qkv::apps {
namespace {

struct TestPairs {
  std::vector<std::string> first, second;
  std::vector<double> scores;  // one per pair, or none
};

TestPairs read_pairs(const std::string& path) {
  TestPairs pairs;
  data::SentencePairReader reader(path);
  for (data::SentencePair pair; reader.next(pair);) {
    pairs.first.push_back(pair.first);
    pairs.second.push_back(pair.second);
    if (pair.score) pairs.scores.push_back(*pair.score);
  }
  if (pairs.scores.size() == 1)
    throw DataError(concat(path, ": expected at least two pairs with scores, found one"));
  if (pairs.first.empty())
    throw DataError(concat(path, ": expected pairs of sentences, found an empty file"));
  return pairs;
}

// Vectors of length 1, whose products are cosines.
std::vector<std::vector<float>> vectors_of(const pipelines::TextEmbedder& embedder, const std::string& path,
                                           const std::vector<std::string>& texts) {
  pipelines::TextEmbedOptions options = embedder.default_options();
  options.vector.normalize = true;
  std::vector<std::vector<float>> vectors;
  for (pipelines::Embedded& one : embedder(texts, options)) {
    if (!one.error.empty()) throw DataError(concat(path, ":", vectors.size() + 1, ": ", one.error));
    vectors.push_back(std::move(one.values));
  }
  return vectors;
}

double product(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                            [](float x, float y) { return double{x} * double{y}; });
}

// The share of first sentences whose most similar second sentence is that of their pair, or an equal text.
double accuracy(const TestPairs& pairs, const std::vector<std::vector<float>>& first,
                const std::vector<std::vector<float>>& second) {
  std::vector<uint8_t> found(first.size());
  parallel_for(std::ssize(first), 4, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      size_t best = 0;
      double most = -2;
      for (size_t j = 0; j < second.size(); ++j) {
        const double similarity = product(first[i], second[j]);
        if (similarity <= most) continue;
        most = similarity;
        best = j;
      }
      found[i] = pairs.second[best] == pairs.second[i] ? 1 : 0;
    }
  });
  return std::accumulate(found.begin(), found.end(), 0.0) / static_cast<double>(found.size());
}

void evaluate(const EvaluationArguments& arguments) {
  const TestPairs pairs = read_pairs(arguments.test);
  const pipelines::TextEmbedder embedder(arguments.model, arguments.load);
  const auto started = std::chrono::steady_clock::now();
  const auto first = vectors_of(embedder, arguments.test, pairs.first),
             second = vectors_of(embedder, arguments.test, pairs.second);
  nlohmann::ordered_json result;
  if (pairs.scores.empty()) {
    result["accuracy"] = accuracy(pairs, first, second);
  } else {
    std::vector<double> cosines;
    for (size_t i = 0; i < first.size(); ++i) cosines.push_back(product(first[i], second[i]));
    result["spearman"] = metrics::spearman(cosines, pairs.scores);
    result["pearson"] = metrics::pearson(cosines, pairs.scores);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const auto count = static_cast<int64_t>(first.size());
  say(concat(counted(count, "pairs"), " in ", fixed(seconds, 2), " s (", counted(threads(), "threads"), ")"));
  if (!arguments.json) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& [name, value] : result.items()) rows.push_back({name, fixed(value.get<double>(), 4)});
    std::cout << table_text(rows);
    return;
  }
  result["pairs"] = count;
  result["seconds"] = seconds;
  std::cout << result.dump(2) << '\n';
}

}  // namespace

void add_embed_evaluation(Command& group) {
  Command* command = add_command(
      group, "embed",
      "Compare the cosines of sentence pairs with their scores. Prints Spearman's and Pearson's\n"
      "correlation. For pairs without scores: accuracy, the share of first sentences whose own second\n"
      "sentence is the most similar one of the file.",
      "qkv evaluate embed model --test test.tsv");
  const auto arguments = std::make_shared<EvaluationArguments>();
  add_evaluation_arguments(*command, *arguments, "FILE",
                           "Lines of SCORE<TAB>SENTENCE<TAB>SENTENCE, or of SENTENCE<TAB>SENTENCE");
  command->callback([arguments] { evaluate(*arguments); });
}

}  // namespace qkv::apps
