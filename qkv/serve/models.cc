#include "qkv/serve/models.h"

#include <algorithm>
#include <set>
#include <utility>

#include "qkv/hub/cache.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/serve/error.h"

namespace qkv::serve {

ModelFolder parse_model_folder(const std::string& text) {
  // A path that contains '=' needs no name.
  std::error_code ignored;
  const size_t equals = std::filesystem::exists(text, ignored) ? std::string::npos : text.find('=');
  ModelFolder result;
  if (equals == std::string::npos) {
    std::filesystem::path folder = text;
    if (!folder.has_filename()) folder = folder.parent_path();  // "model/"
    result = {models::is_gguf(folder) ? folder.stem().string() : folder.filename().string(), text};
    if (result.name == "." || result.name == "..") {
      result.name = std::filesystem::absolute(folder, ignored).lexically_normal().parent_path().filename();
    }
  } else {
    result = {text.substr(0, equals), text.substr(equals + 1)};
  }
  if (result.name.empty() || result.folder.empty())
    throw UsageError(concat("model: expected NAME=DIR, DIR or a .gguf file, found '", text, "'"));
  return result;
}

Models::Models(std::vector<ModelFolder> folders, const models::LoadOptions& load, const WorkOptions& options)
    : folders_(std::move(folders)), load_(load), options_(options) {
  if (folders_.empty()) throw UsageError("serve: expected at least one model folder, found none");
  std::set<std::string> names;
  for (const ModelFolder& one : folders_) {
    if (!names.insert(one.name).second) {
      throw UsageError(concat("serve: expected models of different names, found two called '", one.name,
                              "'; NAME=DIR names a model"));
    }
  }
  destroyer_ = std::thread([this] { destroy_released(); });
  try {
    models_ = open();
  } catch (...) {
    {
      const std::lock_guard lock(released_mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    destroyer_.join();
    throw;
  }
}

Models::~Models() {
  models_.clear();
  {
    const std::lock_guard lock(released_mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  destroyer_.join();
}

std::vector<ModelHandle> Models::open() {
  std::vector<ModelHandle> result;
  for (const ModelFolder& one : folders_) {
    auto model =
        std::make_unique<ServedModel>(one.name, hub::model_folder(one.folder.string()), load_, options_);
    // Made now: releasing a model must not need memory.
    const auto place = std::make_shared<std::list<std::unique_ptr<ServedModel>>>(1);
    {
      const std::lock_guard lock(released_mutex_);
      ++alive_;
    }
    ModelHandle handle(model.release(), [this, place](ServedModel* released) {
      const std::lock_guard lock(released_mutex_);
      place->front().reset(released);
      released_.splice(released_.end(), *place);
      changed_.notify_all();
    });
    result.push_back(std::move(handle));
  }
  return result;
}

void Models::destroy_released() {
  std::unique_lock lock(released_mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !released_.empty() || (stopping_ && alive_ == 0); });
    if (released_.empty()) return;
    std::unique_ptr<ServedModel> one = std::move(released_.front());
    released_.pop_front();
    lock.unlock();
    one.reset();
    lock.lock();
    --alive_;
  }
}

std::vector<ModelHandle> Models::all() const {
  const std::lock_guard lock(mutex_);
  return models_;
}

ModelHandle Models::named(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  std::string names;
  for (const ModelHandle& one : models_) {
    if (one->name() == name) return one;
    names += concat(names.empty() ? "" : ", ", one->name());
  }
  throw HttpError(404, concat("model: expected one of ", names, ", found '", name, "'"),
                  "invalid_request_error", "model_not_found");
}

ModelHandle Models::find(std::string_view name, std::string_view task) const {
  std::string names, tasks;
  if (!name.empty()) {
    ModelHandle model = named(name);
    if (model->has(task)) return model;
    for (const std::string& other : model->tasks()) tasks += concat(tasks.empty() ? "" : ", ", other);
    throw HttpError(400, concat("model '", name, "': expected one for ", task, ", found one for ", tasks));
  }
  const std::lock_guard lock(mutex_);
  for (const ModelHandle& one : models_) {
    if (one->has(task)) return one;
    names += concat(names.empty() ? "" : ", ", one->name());
  }
  throw HttpError(400, concat("expected a model for ", task, ", found none among ", names),
                  "invalid_request_error", "model_not_found");
}

void Models::reload() {
  const std::lock_guard one_at_a_time(reload_mutex_);
  std::vector<ModelHandle> opened = open();
  const std::lock_guard lock(mutex_);
  models_.swap(opened);
}

}  // namespace qkv::serve
