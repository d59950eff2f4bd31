#include "qkv/serve/work/runs.h"

#include <utility>

namespace qkv::serve {
namespace {

// Prepares each input, lets adjust(i, request) change what is decoded, and queues all. on_result: called with
// each result of the decoder, before it is gathered.
template <class Result, class Pipeline, class Input, class Options, class Adjust, class OnResult>
void decode(DecodeWorker& decoder, const CallHandle& call, const Pipeline& pipeline,
            std::span<const Input> inputs, const Options& options, const Adjust& adjust,
            const OnResult& on_result, typename Gather<Result>::Done done) {
  const auto gather = std::make_shared<Gather<Result>>(inputs.size(), std::move(done));
  std::vector<DecodeJob> jobs;
  std::vector<std::pair<size_t, Result>> without_work;
  for (size_t i = 0; i < inputs.size(); ++i) {
    call->require_wanted();
    using Request = decltype(pipeline.prepare(inputs[i], options));
    // Jobs are copied by std::function; a prepared request cannot be.
    const auto request = std::make_shared<Request>(pipeline.prepare(inputs[i], options));
    if (request->done()) {
      without_work.emplace_back(i, pipeline.finish(std::move(*request)));
      continue;
    }
    search::Request wanted = request->decode;
    adjust(i, wanted);
    jobs.push_back({std::move(wanted), [i, request, gather, on_result, &pipeline](search::Decoded decoded) {
                      try {
                        if (decoded.error) std::rethrow_exception(decoded.error);
                        Result result = pipeline.finish(std::move(*request), std::move(decoded));
                        on_result(i, result);
                        gather->put(i, std::move(result));
                      } catch (...) {
                        gather->fail(i, std::current_exception());
                      }
                    }});
  }
  if (!jobs.empty()) decoder.submit(call, std::move(jobs));
  for (auto& [i, result] : without_work) gather->put(i, std::move(result));
}

}  // namespace

void translate(ServedModel& model, const CallHandle& call, std::span<const pipelines::Source> sources,
               const pipelines::TranslateOptions& options, Gather<pipelines::Translation>::Done done) {
  decode<pipelines::Translation>(
      *model.decoder(), call, *model.pipelines().translator, sources, options,
      [](size_t /*source*/, search::Request& /*request*/) {},
      [](size_t /*source*/, const pipelines::Translation& /*result*/) {}, std::move(done));
}

void generate(ServedModel& model, const CallHandle& call, std::span<const pipelines::Prompt> prompts,
              const pipelines::GenerateOptions& options, int top, const OnToken& on_token,
              const OnGenerated& on_generated, Gather<pipelines::Generated>::Done done) {
  decode<pipelines::Generated>(
      *model.decoder(), call, *model.pipelines().generator, prompts, options,
      [&](size_t i, search::Request& request) {
        request.top = top;
        request.on_token = [i, on_token,
                            stream = std::move(request.on_token)](const search::NewToken& token) {
          const bool wanted = !stream || stream(token);
          return on_token(i, token) && wanted;
        };
      },
      on_generated, std::move(done));
}

}  // namespace qkv::serve
