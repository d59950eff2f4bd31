#include "qkv/serve/protocols/exchange.h"

#include <new>
#include <utility>

namespace qkv::serve {

HttpError as_http_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const HttpError& known) {
    return known;
  } catch (const UsageError& refused) {
    return {400, refused.what()};
  } catch (const DataError& refused) {
    return {400, refused.what()};
  } catch (const ShapeError& refused) {
    return {400, refused.what()};
  } catch (const std::bad_alloc&) {
    return {503, "out of memory; retry later, or with less", "server_error", "out_of_memory"};
  } catch (const std::exception& failure) {
    return {500, failure.what(), "server_error", "internal_error"};
  } catch (...) {
    return {500, "unknown error", "server_error", "internal_error"};
  }
}

Exchange::Exchange(HttpRequest request, ReplyHandle reply, std::string request_id, std::string client,
                   Clock::time_point deadline, ErrorShape shape)
    : request_(std::move(request)),
      reply_(std::move(reply)),
      request_id_(std::move(request_id)),
      client_(std::move(client)),
      deadline_(deadline),
      shape_(shape) {}

CallHandle Exchange::call(const ModelHandle& model) {
  call_ = std::make_shared<Call>(client_, deadline_, model);
  reply_->on_closed([weak = std::weak_ptr<Call>(call_)] {
    if (const CallHandle call = weak.lock()) call->cancel();
  });
  return call_;
}

void Exchange::send(HttpResponse response) {
  response.headers.emplace_back("X-Request-Id", request_id_);
  reply_->send(std::move(response));
}

void Exchange::send_json(std::string body, int status) { send({.status = status, .body = std::move(body)}); }

void Exchange::fail(const std::exception_ptr& error) {
  const HttpError known = as_http_error(error);
  if (events_) {
    event(shape_(known));
    return end_events();
  }
  HttpResponse response{.status = known.status, .body = shape_(known)};
  if (known.status == 429 || known.status == 503) response.headers.emplace_back("Retry-After", "1");
  if (known.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  send(std::move(response));
}

void Exchange::event(std::string_view data) {
  std::string text = concat("data: ", data, "\n\n");
  if (!events_) {
    events_ = true;
    HttpResponse response{.content_type = "text/event-stream", .body = std::move(text)};
    response.headers = {{"Cache-Control", "no-store"}, {"X-Request-Id", request_id_}};
    reply_->begin(std::move(response));
  } else if (!reply_->write(std::move(text)) && call_) {
    call_->cancel();
  }
}

void Exchange::end_events() { reply_->end(); }

}  // namespace qkv::serve
