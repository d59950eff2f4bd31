#pragma once
// The routes of a server: one table for answering, for 405, for the metrics' labels, and for /openapi.json.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "qkv/base/option_field.h"
#include "qkv/serve/protocols/exchange.h"

namespace qkv::serve {

class Service;

struct RequestField {
  std::string name = {};
  std::string type = {};  // in the notation of schema.h
  std::string help = {};
  bool required = false;       // others may be null, which is as if they were missing
  std::string otherwise = {};  // the default, as JSON; empty: none, or as `help` has it
  Range range = {};            // of a number
};
using RequestFields = std::vector<RequestField>;

enum class Body : uint8_t { none, json, form, json_or_form };

struct RouteTraits {
  Body body = Body::json;                  // of POST
  const char* media = "application/json";  // of the answer
  bool streams = false;                    // or server-sent events, if the request asks for them
  std::vector<int> errors = {};            // status codes beyond the usual ones
  bool open = false;                       // needs no API key
  bool quick = false;                      // answers at once, while all other handlers work
  // Of the protocol: a tag, and how errors are sent and described.
  const char* tag = "";
  ErrorShape error_shape = openai_error;
  const char* error = "Error";
};

// Answers, now or later; exceptions become errors in the route's shape.
using Handler = void (*)(Service& service, const ExchangeHandle& exchange);

struct Route : RouteTraits {
  const char* method = "";
  const char* path = "";  // "*" at its end: any further characters
  Handler handle = nullptr;
  const char* summary = "";
  RequestFields request = {};  // all that the handler reads
  std::string answer = {};     // in the notation of schema.h
};

// All routes, and those of each protocol.
std::vector<Route> all_routes();
std::vector<Route> openai_routes();
std::vector<Route> libretranslate_routes();
std::vector<Route> tei_routes();        // Hugging Face's Text Embeddings Inference
std::vector<Route> own_routes();        // qkv's own, under /v1
std::vector<Route> operation_routes();  // health, metrics, the page

// The OpenAPI 3.1 description of the routes.
std::string openapi_json(const std::vector<Route>& routes);

}  // namespace qkv::serve
