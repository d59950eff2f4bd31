#pragma once
// The commands, in the order of `qkv --help`, under its headings. Each is a file commands/*/NAME.cc that
// defines add_NAME(Command& app).

#define QKV_COMMANDS(HEADING, COMMAND) \
  HEADING("Train and evaluate models") \
  COMMAND(demo)                        \
  COMMAND(train)                       \
  COMMAND(evaluate)                    \
  COMMAND(verify_resume)               \
  COMMAND(reproduce)                   \
  HEADING("Get models")                \
  COMMAND(pull)                        \
  HEADING("Run models")                \
  COMMAND(translate)                   \
  COMMAND(generate)                    \
  COMMAND(chat)                        \
  COMMAND(score)                       \
  COMMAND(fill_mask)                   \
  COMMAND(classify)                    \
  COMMAND(tag)                         \
  COMMAND(answer)                      \
  COMMAND(embed)                       \
  COMMAND(transcribe)                  \
  COMMAND(rerank)                      \
  COMMAND(serve)                       \
  HEADING("Look inside")               \
  COMMAND(attention)                   \
  COMMAND(inspect)                     \
  COMMAND(bench)                       \
  COMMAND(self_test)                   \
  HEADING("Convert models and texts")  \
  COMMAND(quantize)                    \
  COMMAND(export)                      \
  COMMAND(merge)                       \
  COMMAND(tokenize)                    \
  COMMAND(train_tokenizer)             \
  COMMAND(shortlist)                   \
  COMMAND(bleu)                        \
  HEADING("Help")                      \
  COMMAND(help)                        \
  COMMAND(version)                     \
  COMMAND(man)                         \
  COMMAND(completion)
