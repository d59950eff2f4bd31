// Health, readiness, metrics, and the page.

#include "qkv/serve/page.h"
#include "qkv/serve/protocols/route.h"
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
                               "default-src 'self'; img-src 'self' blob: data:; frame-ancestors 'none'"},
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

void openapi(Service& /*service*/, const ExchangeHandle& exchange) {
  exchange->send_json(std::string(page::kOpenapiJson));
}

}  // namespace

std::vector<Route> operation_routes() {
  return {{"GET", "/health", health, openai_error, true, true},
          {"GET", "/ready", ready, openai_error, true, true},
          {"GET", "/metrics", metrics, openai_error, false, true},
          {"GET", "/openapi.json", openapi, openai_error, true},
          {"GET", "/", index_page, openai_error, true},
          {"GET", "/page.css", page_css, openai_error, true},
          {"GET", "/page.js", page_js, openai_error, true}};
}

}  // namespace qkv::serve
