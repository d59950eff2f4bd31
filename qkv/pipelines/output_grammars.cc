#include "qkv/pipelines/output_grammars.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/grammar/json_schema.h"
#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

OutputGrammar json_schema_grammar(const std::string& schema) {
  return {.key = concat("json_schema: ", schema),
          .make = [schema] { return grammar::grammar_of_json_schema(schema, "json_schema"); }};
}

std::shared_ptr<const search::Constraint> OutputGrammars::constraint(const OutputGrammar& grammar,
                                                                     const text::Tokenizer& tokenizer,
                                                                     int64_t vocabulary) {
  std::shared_ptr<const search::TokenBytes> tokens;
  {
    const std::lock_guard lock(mutex_);
    if (auto known = find(grammar.key)) return known;
    tokens = tokens_of(grammar, tokenizer, vocabulary);
  }
  // Without the lock: a large grammar takes a second.
  std::shared_ptr<const search::Constraint> made;
  try {
    made = std::make_shared<const search::GrammarConstraint>(tokens, grammar.make(), grammar.start);
  } catch (const DataError& error) {
    throw UsageError(error.what());
  } catch (const UsageError& error) {  // of the grammar
    throw UsageError(concat(grammar.key.substr(0, grammar.key.find(':')), ": ", error.what()));
  }
  const std::lock_guard lock(mutex_);
  if (auto known = find(grammar.key)) return known;  // another thread was faster
  if (last_.size() == kKept) last_.erase(last_.begin());
  return last_.emplace_back(grammar.key, std::move(made)).second;
}

std::shared_ptr<const search::Constraint> OutputGrammars::find(const std::string& key) {
  const auto known = std::ranges::find(last_, key, [](const auto& one) { return one.first; });
  if (known == last_.end()) return nullptr;
  std::rotate(known, known + 1, last_.end());
  return last_.back().second;
}

std::shared_ptr<const search::TokenBytes> OutputGrammars::tokens_of(const OutputGrammar& grammar,
                                                                    const text::Tokenizer& tokenizer,
                                                                    int64_t vocabulary) {
  std::shared_ptr<const search::TokenBytes>& tokens = tokens_[grammar.spelled];
  if (tokens) return tokens;
  std::vector<std::string> bytes(static_cast<size_t>(vocabulary));
  for (int32_t id = 0; id < vocabulary; ++id) {
    std::string& own = bytes[static_cast<size_t>(id)];
    if (!tokenizer.is_special(id)) {
      own = tokenizer.bytes(id).value_or("");
    } else if (std::ranges::binary_search(grammar.spelled, id)) {
      own = tokenizer.token(id).value_or("");
    }
  }
  tokens = std::make_shared<const search::TokenBytes>(std::move(bytes));
  return tokens;
}

std::shared_ptr<OutputGrammars> new_output_grammars() { return std::make_shared<OutputGrammars>(); }

}  // namespace qkv::pipelines
