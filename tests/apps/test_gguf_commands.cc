// Commands with a GGUF file, against a folder with the same model.

#include "qkv/models/gguf/gguf_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

// Folder NAME of the test has the weights of a recorded folder, and the other files of "file.gguf", which is
// GGUF.gguf of models/golden_gguf.
class GgufCommands : public CommandTest {
 protected:
  void take(const std::string& gguf, const std::string& weights) const {
    const std::filesystem::path source =
        std::filesystem::path(QKV_TEST_DATA) / "models/golden_gguf" / (gguf + ".gguf");
    scratch_.write("file.gguf", read_file(source));
    const models::GgufModel model(source);
    std::filesystem::create_directories(scratch_ / "folder/1_Pooling");
    for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json",
                             "generation_config.json", "modules.json", "1_Pooling/config.json"}) {
      if (const auto text = model.text_file(name)) scratch_.write(concat("folder/", name), *text);
    }
    scratch_.write("folder/model.safetensors",
                   read_file(std::filesystem::path(recorded_model(weights)) / "model.safetensors"));
  }
  // `line` has "@/MODEL" for the model.
  void expect_same(const std::string& line, const std::string& input = {}) const {
    const auto with = [&](const char* model) {
      std::string own = line;
      own.replace(own.find("MODEL"), 5, model);
      return output(own, input);
    };
    const std::string expected = with("folder");
    EXPECT_EQ(with("file.gguf"), expected) << line;
    EXPECT_NE(expected, "") << line;
  }
};

TEST_F(GgufCommands, LanguageModelsGiveWhatTheirFolderGives) {
  take("chat", "llama_grouped");
  expect_same("generate @/MODEL --max-new-tokens 6", "the north\nsea\n");
  expect_same("generate @/MODEL --sample --seed 3 --max-new-tokens 6", "the north\n");
  expect_same("score @/MODEL", "the north\nsea and\n");
  expect_same("chat @/MODEL --max-new-tokens 3 --seed 3", "the\n");
  expect_same("chat @/MODEL --max-new-tokens 3 --greedy", "the\n");
  expect_same("tokenize @/MODEL --ids", "the north\n<|im_start|>sea\n");
  expect_same("embed @/MODEL --pool last", "the north\n");
  scratch_.write("test.txt", "the north and the sea\n\nthe end\n");
  expect_same("evaluate lm @/MODEL --test @/test.txt");
  run("attention @/folder --source 'the north' --out @/folder.json");
  run("attention @/file.gguf --source 'the north' --out @/file.json");
  EXPECT_EQ(json_file("file.json")["layers"], json_file("folder.json")["layers"]);
  EXPECT_EQ(json_file("file.json")["layers"].size(), 2u);
}

TEST_F(GgufCommands, EncodersGiveWhatTheirFolderGives) {
  take("bert_base", "bert_base");
  expect_same("tokenize @/MODEL", "The quick fox jumped!\n");
  expect_same("embed @/MODEL", "The quick fox jumped!\nlazy dog\n");
  expect_same("embed @/MODEL --pool mean --no-normalize", "The quick fox jumped!\nlazy dog\n");
}

TEST_F(GgufCommands, InspectShowsMetadataAndEncodings) {
  take("chat", "llama_grouped");
  const std::string shown = output("inspect @/file.gguf");
  expect_parts(shown, {"general.architecture", "\"llama\"", "llama.attention.head_count_kv",
                       "general.sampling.top_k", "tokenizer.chat_template", "encodings", "f32"});
  const auto parsed = nlohmann::json::parse(output("inspect @/file.gguf --json"));
  EXPECT_EQ(parsed["metadata"]["llama.embedding_length"], 8);
  EXPECT_EQ(parsed["metadata"]["general.architecture"], "llama");
  EXPECT_EQ(parsed["metadata"]["general.sampling.temp"], 0.75);
  EXPECT_EQ(parsed["metadata"]["tokenizer.ggml.tokens"], "a list of 23 values, each a text");
  expect_parts(parsed["metadata"]["tokenizer.chat_template"], {"{{ bos_token }}", "<|im_start|>"});
  EXPECT_EQ(parsed["parts"][0]["dtypes"]["f32"], 184);
}

TEST_F(GgufCommands, ExportRefusesTheNameOfAPart) {
  take("chat", "llama_grouped");
  expect_refused("export @/file.gguf --to @/file-00002-of-00003.gguf", 2,
                 {"to: expected the name of a whole file", "file-00002-of-00003.gguf"});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "file-00002-of-00003.gguf"));
}

TEST_F(GgufCommands, ExportRemovesWhatAKilledOneLeft) {
  take("chat", "llama_grouped");
  scratch_.write("again.gguf.partial-999999999-0", "half");  // above the largest process id
  output("export @/file.gguf --to @/again.gguf");
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "again.gguf"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "again.gguf.partial-999999999-0"));
}

TEST_F(GgufCommands, CommandsThatNeedAFolderRefuseAFile) {
  take("chat", "llama_grouped");
  scratch_.write("text.txt", "the north\n");
  for (const char* line : {"quantize @/file.gguf --dtype int8 --out @/out", "self-test @/file.gguf",
                           "train lm --from @/file.gguf --train @/text.txt --out @/out",
                           "train lm --from @/file.gguf --lora 2 --train @/text.txt --out @/out"})
    expect_failure(run(line), 2, {"expected a model folder, found the GGUF file", "file.gguf"});
}

}  // namespace
}  // namespace qkv::testing
