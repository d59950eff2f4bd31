// Reads a GGUF file: every value and tensor, what it has in place of a folder's files, and the model.

#include "qkv/models/gguf/gguf_model.h"

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/base/error.h"
#include "qkv/models/hub/pretrained.h"

namespace qkv::fuzz {
namespace {

void read_header(const std::filesystem::path& path) {
  const io::GgufFile file(path);
  for (const std::string& key : file.keys()) {
    file.shown(key);
    file.json(key);
    read_in_each_way({[&] { file.integers(key); }, [&] { file.numbers(key); }, [&] { file.texts(key); },
                      [&] { file.number(key); }, [&] { file.text(key); }, [&] { file.boolean(key); }});
  }
}

void read_parts(const std::filesystem::path& path) {
  const models::GgufModel model(path);
  model.summary();
  for (const std::string& name : model.names()) {
    try {
      model.as_stored(name, model.shape(name));
    } catch (const Error&) {
      // A type that is not read.
    }
  }
  const auto each = [&](const auto& part) {
    try {
      part();
    } catch (const Error&) {
      // The others may be good.
    }
  };
  for (const char* name : {"config.json", "tokenizer_config.json", "generation_config.json", "modules.json"})
    each([&] { model.text_file(name); });
  each([&] { models::load_tokenizer(path).encode("the <|im_start|> n\xC3\xA4"); });
}

void read(std::string_view bytes) {
  static const std::filesystem::path path = scratch_folder("gguf") / "model.gguf";
  write(path, bytes);
  read_in_each_way({[&] { read_header(path); }, [&] { read_parts(path); },
                    [&] { models::load_language_model(path); }, [&] { models::load_text_encoder(path); }});
}

std::vector<std::string> seeds() { return golden_files({"models/golden_gguf"}, ".gguf"); }

}  // namespace

const Reader gguf{"gguf", read, seeds};

}  // namespace qkv::fuzz
