// Health, readiness, metrics, reloading, and the page.

#include "qkv/serve/page.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/service.h"

namespace qkv::serve {
namespace {

void health(Service& /*service*/, const ExchangeHandle& exchange) {
  exchange->send_json(R"({"status":"ok"})");
}

void ready(Service& service, const ExchangeHandle& exchange) {
  if (service.ready()) return exchange->send_json(R"({"status":"ready"})");
  exchange->send_json(R"({"status":"draining"})", 503);
}

void metrics(Service& service, const ExchangeHandle& exchange) {
  exchange->send({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = service.metrics()});
}

void send_page(const ExchangeHandle& exchange, const char* type, std::string_view content) {
  exchange->send({.content_type = type,
                  .body = std::string(content),
                  .headers = {{"Content-Security-Policy",
                               "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
                               "frame-ancestors 'none'"},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Cache-Control", "no-cache"}}});
}

void index_page(Service& /*service*/, const ExchangeHandle& exchange) {
  send_page(exchange, "text/html; charset=utf-8", page::kIndexHtml);
}

void page_css(Service& /*service*/, const ExchangeHandle& exchange) {
  send_page(exchange, "text/css; charset=utf-8", page::kPageCss);
}

void page_js(Service& /*service*/, const ExchangeHandle& exchange) {
  send_page(exchange, "text/javascript; charset=utf-8", page::kPageJs);
}

void record_js(Service& /*service*/, const ExchangeHandle& exchange) {
  send_page(exchange, "text/javascript; charset=utf-8", page::kRecordJs);
}

void openapi(Service& /*service*/, const ExchangeHandle& exchange) {
  exchange->send_json(openapi_json(all_routes()));
}

// A page of another site can send this request without a body of JSON, and must not.
void require_same_origin(const HttpRequest& request) {
  const std::string_view origin = request.header("Origin"), host = request.header("Host");
  const size_t scheme = origin.find("://");
  if (origin.empty() || (scheme != std::string_view::npos && origin.substr(scheme + 3) == host)) return;
  throw HttpError(403, concat("Origin: expected none or this server, found '", origin, "'"));
}

void reload(Service& service, const ExchangeHandle& exchange) {
  require_same_origin(exchange->request());
  if (!exchange->request().body.empty()) Fields(*exchange).done();
  service.reload_later([exchange](const std::exception_ptr& error) {
    if (!error) return exchange->send_json(R"({"reloaded":true})");
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& failure) {
      // A folder of the server is broken, not the request.
      exchange->fail(std::make_exception_ptr(
          HttpError(500, concat("models not reloaded, the present ones stay: ", failure.what()),
                    "server_error", "reload_failed")));
    }
  });
}

}  // namespace

std::vector<Route> operation_routes() {
  const char* const status = "{status: string}";
  const auto page = [](const char* path, Handler handle, const char* media) {
    return get(path, handle, "The page, and its files.", "string", {.media = media, .open = true});
  };
  std::vector<Route> routes{
      get("/health", health, "Whether the process lives.", status, {.open = true, .quick = true}),
      get("/ready", ready, "Whether requests are welcome.", status,
          {.errors = {503}, .open = true, .quick = true, .error = "Error | {status: string}"}),
      get("/metrics", metrics, "Figures for Prometheus.", "string", {.media = "text/plain", .quick = true}),
      post("/v1/reload", reload, "Open all folders again.", {}, "{reloaded: boolean}",
           {.body = Body::none, .errors = {403, 409, 503}}),
      get("/openapi.json", openapi, "This document.", "object", {.open = true}),
      page("/", index_page, "text/html"),
      page("/page.css", page_css, "text/css"),
      page("/page.js", page_js, "text/javascript"),
      page("/record.js", record_js, "text/javascript")};
  for (Route& route : routes) route.tag = "operation";
  return routes;
}

}  // namespace qkv::serve
