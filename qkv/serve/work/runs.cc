#include "qkv/serve/work/runs.h"

#include <utility>

namespace qkv::serve {

void translate(ServedModel& model, const CallHandle& call, std::span<const pipelines::Source> sources,
               const pipelines::TranslateOptions& options, Gather<pipelines::Translation>::Done done) {
  const pipelines::Translator& translator = *model.pipelines().translator;
  const auto gather = std::make_shared<Gather<pipelines::Translation>>(sources.size(), std::move(done));
  std::vector<DecodeJob> jobs;
  std::vector<std::pair<size_t, pipelines::Translation>> without_work;
  for (size_t i = 0; i < sources.size(); ++i) {
    // Jobs are copied by std::function; a prepared request cannot be.
    const auto request =
        std::make_shared<pipelines::TranslationRequest>(translator.prepare(sources[i], options));
    if (request->done()) {
      without_work.emplace_back(i, translator.finish(std::move(*request)));
      continue;
    }
    const search::Request decode = request->decode;
    jobs.push_back({decode, [i, request, gather, &translator](search::Decoded decoded) {
                      try {
                        if (decoded.error) std::rethrow_exception(decoded.error);
                        gather->put(i, translator.finish(std::move(*request), std::move(decoded)));
                      } catch (...) {
                        gather->fail(i, std::current_exception());
                      }
                    }});
  }
  if (!jobs.empty()) model.decoder()->submit(call, std::move(jobs));
  for (auto& [i, translation] : without_work) gather->put(i, std::move(translation));
}

void generate(ServedModel& model, const CallHandle& call, std::span<const pipelines::Prompt> prompts,
              const pipelines::GenerateOptions& options, int top, const OnToken& on_token,
              Gather<pipelines::Generated>::Done done) {
  const pipelines::TextGenerator& generator = *model.pipelines().generator;
  const auto gather = std::make_shared<Gather<pipelines::Generated>>(prompts.size(), std::move(done));
  std::vector<DecodeJob> jobs;
  std::vector<std::pair<size_t, pipelines::Generated>> without_work;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto request =
        std::make_shared<pipelines::GenerationRequest>(generator.prepare(prompts[i], options));
    if (request->done()) {
      without_work.emplace_back(i, generator.finish(std::move(*request)));
      continue;
    }
    search::Request decode = request->decode;
    decode.top = top;
    if (on_token) {
      decode.on_token = [i, on_token, stream = std::move(decode.on_token)](const search::NewToken& token) {
        const bool wanted = !stream || stream(token);
        return on_token(i, token) && wanted;
      };
    }
    jobs.push_back({std::move(decode), [i, request, gather, &generator](search::Decoded decoded) {
                      try {
                        if (decoded.error) std::rethrow_exception(decoded.error);
                        gather->put(i, generator.finish(std::move(*request), std::move(decoded)));
                      } catch (...) {
                        gather->fail(i, std::current_exception());
                      }
                    }});
  }
  if (!jobs.empty()) model.decoder()->submit(call, std::move(jobs));
  for (auto& [i, generated] : without_work) gather->put(i, std::move(generated));
}

}  // namespace qkv::serve
