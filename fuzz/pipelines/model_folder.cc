// Replaces one file of a model folder, then opens the folder and runs the model. The input is a line with the
// folder's name, a line with the file's, and the content.

#include <algorithm>
#include <map>

#include "fuzz/input.h"
#include "fuzz/pipelines/run_model.h"
#include "fuzz/reader.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"

namespace qkv::fuzz {
namespace {

namespace fs = std::filesystem;

// A folder for each kind of model and tokenizer.
constexpr std::initializer_list<const char*> kFolders{"gpt2",
                                                      "SmolLM2-135M",
                                                      "bert-base-NER",
                                                      "roberta-base",
                                                      "distilbert-base-uncased-finetuned-sst-2-english",
                                                      "t5-small",
                                                      "opus-mt-en-de",
                                                      "vit-base-patch16-224",
                                                      "deit-base-distilled-patch16-224"};
constexpr std::initializer_list<const char*> kEndings{".json", ".txt", ".model", ".spm", ".safetensors"};

// A copy of the golden folder, created once.
const fs::path& copy_of(const std::string& name) {
  static std::map<std::string, fs::path> copies;
  if (const auto found = copies.find(name); found != copies.end()) return found->second;
  const fs::path folder = scratch_folder("model_folder-" + name);
  for (const auto& entry : fs::directory_iterator(golden("apps/golden/hub") / name)) {
    if (entry.is_regular_file()) fs::copy_file(entry.path(), folder / entry.path().filename());
  }
  return copies[name] = folder;
}

std::string_view take_line(std::string_view& bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  bytes.remove_prefix(std::min(line.size() + 1, bytes.size()));
  return line;
}

void read(std::string_view bytes) {
  const std::string name(take_line(bytes)), file(take_line(bytes));
  if (std::ranges::find(kFolders, std::string_view(name)) == kFolders.end()) return;
  const fs::path original = golden("apps/golden/hub") / name / file;
  std::error_code too_long;  // an invalid file name does not exist
  if (file.empty() || file.find('/') != file.npos || !fs::is_regular_file(original, too_long)) return;
  const fs::path& folder = copy_of(name);
  write(folder / file, bytes);
  try {
    run_model(pipelines::open_model(folder));
  } catch (const Error&) {
    write(folder / file, read_file(original));
    throw;
  }
  write(folder / file, read_file(original));
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const char* name : kFolders) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(golden("apps/golden/hub") / name))
      files.push_back(entry.path());
    std::ranges::sort(files);
    for (const fs::path& file : files) {
      const std::string path = file.string();
      const bool read = std::ranges::any_of(kEndings, [&](auto ending) { return path.ends_with(ending); });
      if (!read || file.filename() == "said.json") continue;
      all.push_back(concat(name, "\n", file.filename().string(), "\n", read_file(file)));
    }
  }
  return all;
}

}  // namespace

const Reader model_folder{"model_folder", read, seeds};

}  // namespace qkv::fuzz
