#include "qkv/pipelines/json_schemas.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/grammar/json_schema.h"
#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

std::shared_ptr<const search::Constraint> JsonSchemas::constraint(const std::string& schema,
                                                                  const text::Tokenizer& tokenizer,
                                                                  int64_t vocabulary) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(last_, schema, [](const auto& one) { return one.first; });
  if (known != last_.end()) {
    std::rotate(known, known + 1, last_.end());
    return last_.back().second;
  }
  if (!tokens_) {
    std::vector<std::string> bytes(static_cast<size_t>(vocabulary));
    for (int32_t id = 0; id < vocabulary; ++id) {
      if (!tokenizer.is_special(id)) bytes[static_cast<size_t>(id)] = tokenizer.bytes(id).value_or("");
    }
    tokens_ = std::make_shared<const search::TokenBytes>(std::move(bytes));
  }
  try {
    auto made = std::make_shared<const search::GrammarConstraint>(
        tokens_, grammar::grammar_of_json_schema(schema, "json_schema"));
    if (last_.size() == kKept) last_.erase(last_.begin());
    return last_.emplace_back(schema, std::move(made)).second;
  } catch (const DataError& error) {
    throw UsageError(error.what());
  } catch (const UsageError& error) {  // of the grammar
    throw UsageError(concat("json_schema: ", error.what()));
  }
}

std::shared_ptr<JsonSchemas> new_json_schemas() { return std::make_shared<JsonSchemas>(); }

}  // namespace qkv::pipelines
