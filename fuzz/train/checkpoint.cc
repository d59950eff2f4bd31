// Reads a checkpoint: the bytes as a file, and again as a description with its correct checksum. Sets the
// fields as a resumed run does.

#include "qkv/train/checkpoint.h"

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/base/error.h"
#include "qkv/models/config.h"
#include "qkv/train/options.h"

namespace qkv::fuzz {
namespace {

constexpr std::string_view kModel = "model.";

std::filesystem::path folder() { return scratch_folder("checkpoint"); }

std::filesystem::path file() { return folder() / "step-000000001.safetensors"; }

void open() {
  const train::CheckpointFolder checkpoints(folder());
  checkpoints.snapshots();
  const std::optional<train::Checkpoint> checkpoint = checkpoints.load_latest();
  if (!checkpoint) return;
  train::TrainOptions options;
  models::TransformerConfig config;
  for (const auto& [name, value] : checkpoint->fields) {
    if (!set_field(options, name, value) && name.starts_with(kModel))
      set_field(config, name.substr(kModel.size()), value);
  }
  options.max_steps = 1;
  options.validate();
  config.validate();
}

void read(std::string_view bytes) {
  const auto as_description = [&] {
    io::write_safetensors(file(), {},
                          {{"qkv_training", std::string(bytes)}, {"qkv_checksum", std::string(16, '0')}});
    train::seal_checkpoint(file());
    open();
  };
  const auto as_file = [&] {
    write(file(), bytes);
    open();
  };
  read_in_each_way({as_description, as_file});
}

std::vector<std::string> seeds() {
  models::TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = 8;
  train::Fields fields;
  for (const train::Field& field : train::fields(train::TrainOptions{})) fields[field.name] = field.value;
  for (const auto& [name, value] : models::fields(config)) fields[concat(kModel, name)] = value;
  train::TrainState state;
  state.steps = 1;
  state.window.curves = {{"loss", 2.5, 3}};
  state.best = {{"loss", 1.5}, {"bleu", 20}};
  state.snapshots = {1};
  train::CheckpointFolder(folder()).save(state, fields,
                                         {{"weight", Tensor::from(std::vector{0.5f, 1.5f}, {2})}}, 1);
  const io::SafetensorsFile saved(file());
  return {joined_files(folder(), {"step-000000001.safetensors"}), saved.metadata().at("qkv_training")};
}

}  // namespace

const Reader checkpoint{"checkpoint", read, seeds};

}  // namespace qkv::fuzz
