#include "qkv/pipelines/parts/folder.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "qkv/base/error.h"
#include "qkv/base/hash.h"
#include "qkv/pipelines/parts/content_hash.h"

namespace qkv::pipelines {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr size_t kHashDigits = 16;

std::string hash_of(std::string_view text) {
  Hash64 hash;
  hash.add(text);
  return hash_text(hash.value());
}

}  // namespace

PartFolder::PartFolder(const PartOptions& options, const PartInput& input)
    : output_(options.output),
      path_(options.output.string() + ".parts"),
      identity_(ordered_json::object()),
      input_(input) {
  for (const auto& [name, value] : options.identity) identity_[name] = value;
  identity_["lines of a part"] = std::to_string(options.lines.chunk_lines);
  identity_["input"] = input.hash();
  run_ = hash_of(identity_.dump());
  make_writable_folder(path_);
  lock_.emplace(path_);
  remove_partial_files(path_);
  require_same_run();
}

std::optional<LineCounts> PartFolder::finished() const {
  std::error_code ignored;
  if (!record_.contains("finished") || !fs::exists(output_, ignored)) return std::nullopt;
  const ordered_json& end = record_["finished"];
  if (content_hash(output_) != end.value("output", "")) return std::nullopt;
  return LineCounts{.lines = end.value("lines", int64_t{0}), .errors = end.value("errors", int64_t{0})};
}

std::optional<PartResult> PartFolder::find(size_t part) const {
  std::error_code ignored;
  if (!fs::exists(file(part), ignored)) return std::nullopt;
  const std::string content = read_file(file(part));
  const size_t end = content.find('\n');
  if (end == content.npos || end < kHashDigits ||
      content.compare(0, kHashDigits, hash_of(std::string_view(content).substr(kHashDigits))) != 0)
    return std::nullopt;
  try {
    const json head = json::parse(content.begin() + kHashDigits, content.begin() + static_cast<int64_t>(end));
    if (head.at("run") != run_ || head.at("first") != input_.first(part) ||
        head.at("lines") != input_.lines(part))
      return std::nullopt;
    return PartResult{.text = {},
                      .messages = head.at("messages"),
                      .counts = {input_.lines(part), head.at("errors").get<int64_t>()}};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

void PartFolder::write(size_t part, const PartResult& result) const {
  const json head{{"run", run_},
                  {"first", input_.first(part)},
                  {"lines", input_.lines(part)},
                  {"errors", result.counts.errors},
                  {"messages", result.messages}};
  const std::string content = head.dump(-1, ' ', false, json::error_handler_t::replace) + "\n" + result.text;
  AtomicFile out(file(part));
  out.write(hash_of(content));
  out.write(content);
  out.commit();
}

void PartFolder::join(const LineCounts& counts) {
  const fs::path joined = path_ / "joined";
  Hash64 hash;
  {
    AtomicFile out(joined);
    std::string block(1 << 20, '\0');
    for (size_t part = 0; part < input_.size(); ++part) {
      InputFile in(file(part));
      bool in_text = false;
      while (const size_t bytes = in.read(block.data(), block.size())) {
        std::string_view text(block.data(), bytes);
        if (!in_text) {
          const size_t end = text.find('\n');
          in_text = end != text.npos;
          text.remove_prefix(in_text ? end + 1 : text.size());
        }
        out.write(text);
        hash.add(text);
      }
    }
    out.commit();
  }
  with_io_errors([&] { fs::rename(joined, output_); });
  flush_folder(output_.has_parent_path() ? output_.parent_path() : ".");
  record_["finished"] = {
      {"lines", counts.lines}, {"errors", counts.errors}, {"output", hash_text(hash.value())}};
  write_record();
  remove_parts();
}

void PartFolder::remove_parts() const {
  for (const fs::path& path : files_in(path_)) {
    std::error_code ignored;
    if (path.filename() != "run.json") fs::remove(path, ignored);
  }
}

fs::path PartFolder::file(size_t part) const {
  std::string digits = std::to_string(part + 1);
  digits.insert(0, 6 - std::min<size_t>(6, digits.size()), '0');
  return path_ / ("part-" + digits);
}

void PartFolder::write_record() const { write_file_atomically(path_ / "run.json", record_.dump(2) + "\n"); }

void PartFolder::require_same_run() {
  if (fs::exists(path_ / "run.json")) {
    record_ = ordered_json::parse(read_file(path_ / "run.json"), nullptr, false);
    const ordered_json found = record_.is_object() ? record_.value("run", ordered_json()) : ordered_json();
    for (const auto& [name, value] : identity_.items()) require_same(name, value, found);
    if (found.is_object())
      for (const auto& [name, value] : found.items())
        require_same(name, identity_.value(name, ordered_json()), found);
  } else {
    record_ = {{"run", identity_}};
    write_record();
  }
}

void PartFolder::require_same(const std::string& name, const ordered_json& expected,
                              const ordered_json& all) const {
  const ordered_json found = all.is_object() ? all.value(name, ordered_json()) : ordered_json();
  if (found == expected) return;
  const auto shown = [](const ordered_json& value) { return value.is_null() ? "none" : value.dump(); };
  throw UsageError(concat(path_.string(), ": expected the parts of this run, found those of another (", name,
                          ": ", shown(found), ", here ", shown(expected),
                          "); remove the folder, or choose another output"));
}

}  // namespace qkv::pipelines
