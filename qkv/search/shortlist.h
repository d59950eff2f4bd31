#pragma once
// Which target tokens the tokens of a source may become: a small part of a large vocabulary (Jean et al.
// 2015, section 3.3; L'Hostis et al. 2016).

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "qkv/search/step_model.h"

namespace qkv::search {

struct ShortlistOptions {
  int iterations = 5;       // of expectation maximisation
  int64_t per_token = 100;  // the likeliest target tokens of each source token
  int64_t frequent = 100;   // the target's most frequent tokens, which any source may become

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// Two sentences that translate each other, without </s>.
struct TokenPair {
  std::vector<int32_t> source, target;
};

class Shortlist {
 public:
  // From how often tokens go together: model 1 of Brown et al. (1993), where each target token comes from one
  // token of its source, or from none. Memory grows with the different pairs of tokens that ever meet in a
  // sentence. Throws UsageError for bad options, DataError for no pairs and for an id outside its
  // vocabulary.
  static Shortlist learn(std::span<const TokenPair> pairs, int64_t source_vocabulary,
                         int64_t target_vocabulary, const ShortlistOptions& options = {});
  // Throws IoError, and DataError for a file that is none or contradicts itself.
  static Shortlist load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;

  int64_t source_vocabulary() const { return static_cast<int64_t>(begin_.size()) - 1; }
  int64_t target_vocabulary() const { return target_vocabulary_; }

  // What the output for a source may be made of, ascending: its tokens' lists, the frequent tokens and those
  // of `always` that the vocabulary has.
  std::vector<int32_t> allowed(Ids source, Ids always) const;

 private:
  Shortlist() = default;

  int64_t target_vocabulary_ = 0;
  std::vector<int32_t> begin_;  // [source vocabulary + 1]: where the list of each source token begins
  std::vector<int32_t> lists_;
  std::vector<int32_t> frequent_;
};

}  // namespace qkv::search
