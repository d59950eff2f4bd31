#pragma once

#include <array>

#include "fuzz/reader.h"

namespace qkv::fuzz {

inline constexpr std::array kReaders{&audio,
                                     &audio_config,
                                     &chat_template,
                                     &checkpoint,
                                     &cifar,
                                     &command_line,
                                     &corpus,
                                     &generation_config,
                                     &gguf,
                                     &hub_answers,
                                     &idx,
                                     &image,
                                     &json_schema,
                                     &marian_files,
                                     &merges_files,
                                     &model_config,
                                     &model_folder,
                                     &preprocessor_config,
                                     &proof,
                                     &pytorch,
                                     &questions,
                                     &safetensors,
                                     &sentence_transformer,
                                     &sentencepiece,
                                     &sentencepiece_files,
                                     &shard_index,
                                     &shortlist,
                                     &text_file,
                                     &token_store,
                                     &tokenizer_json,
                                     &wordpiece_files};

inline const auto& readers() { return kReaders; }

}  // namespace qkv::fuzz
