// qkv merge

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "qkv/hub/cache.h"
#include "qkv/models/hub/adapters/adapter.h"
#include "qkv/models/hub/copies.h"
#include "qkv/pipelines/proof/proof.h"

namespace qkv::apps {
namespace {

struct MergeArguments {
  std::optional<std::string> model;
  std::string adapter, out;
};

void merge(const MergeArguments& arguments) {
  const auto finish = [](const std::filesystem::path& folder) { pipelines::write_proof(folder); };
  const std::filesystem::path base =
      arguments.model ? std::filesystem::path(*arguments.model) : models::base_folder(arguments.adapter);
  models::merge_adapter(base, arguments.adapter, arguments.out, finish);
  say(concat(arguments.out, ": ", base.string(), " with the updates of ", arguments.adapter, ", in f32"));
}

}  // namespace

void add_merge(Command& app) {
  Command* command = add_command(
      app, "merge",
      "Add a LoRA adapter to the weights of its base model. Writes the sum as a model folder, with f32\n"
      "weights, that needs no adapter.",
      "qkv merge --adapter adapter --out merged && qkv classify merged < reviews.txt");
  const auto arguments = std::make_shared<MergeArguments>();
  add_option(*command, "model", arguments->model, "DIR",
             "Folder of the base model (default: the adapter's base_model_name_or_path)");
  add_option(*command, "--adapter", arguments->adapter, "DIR", "Adapter, of qkv train or of PEFT")
      ->required();
  add_option(*command, "--out", arguments->out, "DIR", "New folder: empty or nonexistent")->required();
  add_threads_option(*command);
  command->before_run([arguments] {
    if (arguments->model) arguments->model = hub::model_folder(*arguments->model);
    arguments->adapter = hub::model_folder(arguments->adapter);
  });
  command->callback([arguments] { merge(*arguments); });
}

}  // namespace qkv::apps
