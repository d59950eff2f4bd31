#pragma once
// The routes of a server: one table for answering, for 405, and for the metrics' labels.

#include <string>
#include <vector>

#include "qkv/serve/protocols/exchange.h"

namespace qkv::serve {

class Service;

struct Route {
  const char* method;
  const char* path;  // "*" at its end: any further characters
  // Answers, now or later; exceptions become errors in the route's shape.
  void (*handle)(Service& service, const ExchangeHandle& exchange);
  ErrorShape error_shape;
  bool open = false;   // needs no API key
  bool quick = false;  // answers at once, while all other handlers work
};

// The routes of each protocol.
std::vector<Route> openai_routes();
std::vector<Route> libretranslate_routes();
std::vector<Route> tei_routes();        // Hugging Face's Text Embeddings Inference
std::vector<Route> own_routes();        // qkv's own, under /v1
std::vector<Route> operation_routes();  // health, metrics, the page

// {"error": {"message", "type", "param": null, "code"}}
std::string openai_error(const HttpError& error);

}  // namespace qkv::serve
