#include "qkv/serve/protocols/exchange.h"
#include "qkv/serve/protocols/route.h"

#include <new>
#include <utility>

namespace qkv::serve {
namespace {

// Grace period before the exchange itself answers 504.
constexpr std::chrono::milliseconds kDeadlineGrace{50};

}  // namespace

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
                   Clock::time_point deadline, const Route& route)
    : request_(std::move(request)),
      reply_(std::move(reply)),
      request_id_(std::move(request_id)),
      client_(std::move(client)),
      deadline_(deadline),
      route_(route) {}

CallHandle Exchange::call(const ModelHandle& model) {
  if (call_) return call_;
  model->require_unchanged();
  model_ = model;
  call_ = std::make_shared<Call>(client_, deadline_, model);
  reply_->on_closed([weak = std::weak_ptr<Call>(call_)] {
    if (const CallHandle call = weak.lock()) call->cancel();
  });
  // Workers check deadlines between steps. This timer covers work without steps.
  reply_->at(deadline_ + kDeadlineGrace, [weak = weak_from_this()] {
    const ExchangeHandle self = weak.lock();
    if (!self) return;
    self->send(self->error_response(DeadlineExceeded()));
    self->call_->cancel();
  });
  return call_;
}

void Exchange::send(HttpResponse response) {
  response.headers.emplace_back("X-Request-Id", request_id_);
  reply_->send(std::move(response));
}

void Exchange::send_json(std::string body, int status) { send({.status = status, .body = std::move(body)}); }

HttpResponse Exchange::error_response(const HttpError& error) const {
  HttpResponse response{.status = error.status, .body = route_.error_shape(error)};
  if (error.status == 429 || error.status == 503) response.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

void Exchange::fail(const std::exception_ptr& error) noexcept {
  try {
    const HttpError known = as_http_error(error);
    if (!events_) return send(error_response(known));
    event(route_.error_shape(known));
    reply_->end(known.status);
  } catch (...) {  // out of memory: the reply's end tells the connection
  }
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
