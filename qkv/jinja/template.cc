#include "qkv/jinja/template.h"

#include "qkv/jinja/run/run.h"
#include "qkv/jinja/syntax/parser.h"

namespace qkv::jinja {

struct Template::Parsed {
  std::string name;
  Body body;
};

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return local;
}

Template::Template(std::string_view source, std::string name) {
  auto parsed = std::make_unique<Parsed>();
  parsed->name = std::move(name);
  parsed->body = parse(source, parsed->name);
  parsed_ = std::move(parsed);
}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string Template::render(const Dict& context, const Limits& limits, const Clock& clock) const {
  return Run(parsed_->name, context, limits, clock).render(parsed_->body);
}

}  // namespace qkv::jinja
