#pragma once
// Outputs of a language model that a grammar describes.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "qkv/grammar/grammar.h"
#include "qkv/search/grammar_constraint.h"
#include "qkv/text/tokenizer.h"

namespace qkv::pipelines {

struct OutputGrammar {
  std::string key;  // equal keys: equal grammars
  std::function<grammar::Grammar()> make;
  search::GrammarStart start = {};
  // Special tokens that texts may have, in ascending order: they count as their spelling.
  std::vector<int32_t> spelled = {};
};

// JSON texts of a schema (grammar/json_schema.h).
OutputGrammar json_schema_grammar(const std::string& schema);

// The constraints of a model's last grammars, each of which knows the tokens that it has allowed before. Safe
// to use from several threads.
class OutputGrammars {
 public:
  // `vocabulary`: of the model. Throws UsageError for errors of make() and of search::GrammarConstraint.
  std::shared_ptr<const search::Constraint> constraint(const OutputGrammar& grammar,
                                                       const text::Tokenizer& tokenizer, int64_t vocabulary);

 private:
  // With the lock held. find() makes a constraint the newest; null: none.
  std::shared_ptr<const search::Constraint> find(const std::string& key);
  std::shared_ptr<const search::TokenBytes> tokens_of(const OutputGrammar& grammar,
                                                      const text::Tokenizer& tokenizer, int64_t vocabulary);

  static constexpr size_t kKept = 8;
  std::mutex mutex_;
  std::map<std::vector<int32_t>, std::shared_ptr<const search::TokenBytes>> tokens_;  // by spelled tokens
  std::vector<std::pair<std::string, std::shared_ptr<const search::Constraint>>>
      last_;  // the newest at the end
};

}  // namespace qkv::pipelines
