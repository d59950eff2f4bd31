#pragma once
// The commands, in the order of `qkv --help`. Each is a file commands/*/NAME.cc that defines
// add_NAME(Command& app).

#define QKV_COMMANDS(COMMAND) \
  COMMAND(demo)               \
  COMMAND(train)              \
  COMMAND(verify_resume)      \
  COMMAND(reproduce)          \
  COMMAND(translate)          \
  COMMAND(shortlist)          \
  COMMAND(evaluate)           \
  COMMAND(bleu)               \
  COMMAND(tokenize)           \
  COMMAND(train_tokenizer)    \
  COMMAND(quantize)           \
  COMMAND(merge)              \
  COMMAND(inspect)            \
  COMMAND(generate)           \
  COMMAND(score)              \
  COMMAND(fill_mask)          \
  COMMAND(classify)           \
  COMMAND(tag)                \
  COMMAND(embed)              \
  COMMAND(serve)              \
  COMMAND(bench)              \
  COMMAND(self_test)          \
  COMMAND(attention)          \
  COMMAND(completion)         \
  COMMAND(man)
