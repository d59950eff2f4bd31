// A constraint on a language model's output: words that begin with a given letter.
#include <qkv/qkv.h>

#include <iostream>
using namespace qkv;  // NOLINT(google-build-using-namespace)

struct Beginning : search::Constraint {
  std::vector<int32_t> ids;
  Beginning(const text::Tokenizer& tokenizer, char letter) {
    for (int32_t id = 0; id < tokenizer.size(); ++id) {
      if (tokenizer.token(id)->starts_with(letter)) ids.push_back(id);
    }
  }
  void apply(const search::StepContext& context, search::NextTokens& next) const override {
    next.allow_only(ids);
    if (!context.output().empty()) next.forbid(context.output().back());  // no word twice in a row
  }
};

int main(int argc, char** argv) {
  if (argc != 2) throw UsageError("give the folder of a language model");
  const pipelines::TextGenerator generator(argv[1]);
  pipelines::GenerateOptions options = generator.default_options();
  options.search.max_new_tokens = 4;
  options.search.constraints = {std::make_shared<Beginning>(generator.model().tokenizer, 's')};
  const std::vector<pipelines::Prompt> prompts{{.text = "the man"}};
  std::cout << generator(prompts, options)[0].completions[0].text << '\n';
}
