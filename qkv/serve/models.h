#pragma once
// The models of a server, by name; they can be reloaded while calls use them.

#include <condition_variable>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "qkv/serve/work/served_model.h"

namespace qkv::serve {

struct ModelFolder {
  std::string name;
  std::filesystem::path folder;
};

// "NAME=DIR", or "DIR", whose name is that of its last part. A folder may be a name of the hub, whose
// revision in the cache is looked up at each opening. Throws UsageError for an empty name or folder.
ModelFolder parse_model_folder(const std::string& text);

class Models {
 public:
  // Opens all folders. Throws UsageError for none and for a repeated name, and the errors of ServedModel.
  Models(std::vector<ModelFolder> folders, const models::LoadOptions& load, const WorkOptions& options);
  // Waits for calls under way to release their models.
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  std::vector<ModelHandle> all() const;
  // The model of that name, or, for an empty name, the first with this task. Throws HttpError: 404 for an
  // unknown name (naming those there are), 400 for a model without the task.
  ModelHandle find(std::string_view name, std::string_view task) const;

  // The model of that name. Throws HttpError (404) as find().
  ModelHandle named(std::string_view name) const;

  // Opens all folders again and replaces the models; calls under way end with the old ones. If a folder
  // cannot be opened, all models stay as they are and its error is thrown.
  void reload();

 private:
  std::vector<ModelHandle> open();
  void destroy_released();

  std::vector<ModelFolder> folders_;
  models::LoadOptions load_;
  WorkOptions options_;

  mutable std::mutex mutex_;
  std::vector<ModelHandle> models_;
  std::mutex reload_mutex_;

  // A model's last call ends on a thread of the model, which cannot join itself: a thread of its own destroys
  // models.
  std::mutex released_mutex_;
  std::condition_variable changed_;
  std::list<std::unique_ptr<ServedModel>> released_;
  size_t alive_ = 0;  // opened and not destroyed
  bool stopping_ = false;
  std::thread destroyer_;
};

}  // namespace qkv::serve
