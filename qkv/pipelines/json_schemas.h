#pragma once
// Outputs of a language model that a JSON schema describes.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "qkv/search/grammar_constraint.h"
#include "qkv/text/tokenizer.h"

namespace qkv::pipelines {

// The constraints of a model's last schemas, each of which knows the tokens that it has allowed before. Safe
// to use from several threads.
class JsonSchemas {
 public:
  // `vocabulary`: of the model. Throws UsageError for a schema that grammar_of_json_schema() refuses.
  std::shared_ptr<const search::Constraint> constraint(const std::string& schema,
                                                       const text::Tokenizer& tokenizer, int64_t vocabulary);

 private:
  static constexpr size_t kKept = 8;
  std::mutex mutex_;
  std::shared_ptr<const search::TokenBytes> tokens_;
  std::vector<std::pair<std::string, std::shared_ptr<const search::Constraint>>>
      last_;  // the newest at the end
};

}  // namespace qkv::pipelines
