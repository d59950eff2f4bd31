#pragma once
// Runs pipelines for a call: prepares requests on the calling thread, queues them at the model's worker, and
// finishes them there. Each function queues all parts of a call or none.
//
// `done` receives one result per input, in order, possibly on another thread, possibly before the function
// returns. The functions throw UsageError for bad options, QueueFull, ShuttingDown, and while they prepare
// DeadlineExceeded and Cancelled; `done` is then not called.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/translate.h"
#include "qkv/serve/work/gather.h"
#include "qkv/serve/work/served_model.h"

namespace qkv::serve {

void translate(ServedModel& model, const CallHandle& call, std::span<const pipelines::Source> sources,
               const pipelines::TranslateOptions& options, Gather<pipelines::Translation>::Done done);

// top: most likely tokens in NewToken::top. on_token of a prompt is called after each token, on the worker's
// thread, once its text (if any) has been passed to Prompt::on_text; returning false ends the completion.
using OnToken = std::function<bool(size_t prompt, const search::NewToken& token)>;
// Called with the result of a prompt as soon as there is one, on the worker's thread.
using OnGenerated = std::function<void(size_t prompt, const pipelines::Generated& result)>;

void generate(ServedModel& model, const CallHandle& call, std::span<const pipelines::Prompt> prompts,
              const pipelines::GenerateOptions& options, int top, const OnToken& on_token,
              const OnGenerated& on_generated, Gather<pipelines::Generated>::Done done);

template <class Result>
Result failed_result(std::string_view error) {
  Result result;
  result.error = error;
  return result;
}

// Texts or images through an encoder: prepare(i) gives the pipeline's request of input i, finish(request,
// hidden) its result.
template <class Result, class Input, class Prepare, class Finish>
void encode(EncodeWorker<Input>& encoder, const CallHandle& call, size_t inputs, const Prepare& prepare,
            const Finish& finish, typename Gather<Result>::Done done) {
  const auto gather = std::make_shared<Gather<Result>>(inputs, std::move(done));
  std::vector<EncodeJob<Input>> jobs;
  std::vector<std::pair<size_t, std::string>> errors;
  for (size_t i = 0; i < inputs; ++i) {
    call->require_wanted();
    using Request = decltype(prepare(i));
    const auto request = std::make_shared<const Request>(prepare(i));
    if (!request->error.empty()) {
      errors.emplace_back(i, request->error);
      continue;
    }
    jobs.push_back(
        {request, [i, request, gather, finish](const Tensor* hidden, const std::exception_ptr& error) {
           try {
             if (error) std::rethrow_exception(error);
             gather->put(i, hidden ? finish(*request, *hidden) : failed_result<Result>("cancelled"));
           } catch (...) {
             gather->fail(i, std::current_exception());
           }
         }});
  }
  if (!jobs.empty()) encoder.submit(call, std::move(jobs));
  for (const auto& [i, error] : errors) gather->put(i, failed_result<Result>(error));
}

// Tokens of all requests of a call whose inputs are several each.
inline constexpr size_t kMaxPartTokens = 1 << 20;

// Likewise texts that are several requests each: prepare(i) gives those of text i, merge(results) the result
// of one text. Throws HttpError (400) for more tokens than kMaxPartTokens.
template <class Part, class Prepare, class Finish, class Merge>
void encode_parts(TextWorker& encoder, const CallHandle& call, size_t texts, const Prepare& prepare,
                  const Finish& finish, const Merge& merge,
                  typename Gather<std::invoke_result_t<Merge, std::span<const Part>>>::Done done) {
  typename std::invoke_result_t<Prepare, size_t> parts;
  std::vector<size_t> ends;  // of the parts of each text
  size_t tokens = 0;
  for (size_t i = 0; i < texts; ++i) {
    call->require_wanted();
    for (auto& part : prepare(i)) {
      tokens += part.encoding.size();
      parts.push_back(std::move(part));
    }
    ends.push_back(parts.size());
    if (tokens > kMaxPartTokens) {
      throw HttpError(400, concat("text: expected at most ", kMaxPartTokens,
                                  " tokens in all, counted in each window and with each label, found more"));
    }
  }
  encode<Part>(
      encoder, call, parts.size(), [&](size_t i) { return std::move(parts[i]); }, finish,
      [merge, ends = std::move(ends), done = std::move(done)](const std::vector<Part>& found,
                                                              const std::exception_ptr& error) {
        std::vector<std::invoke_result_t<Merge, std::span<const Part>>> results;
        for (size_t i = 0, begin = 0; !error && i < ends.size(); begin = ends[i++])
          results.push_back(merge(std::span(found).subspan(begin, ends[i] - begin)));
        done(std::move(results), error);
      });
}

}  // namespace qkv::serve
