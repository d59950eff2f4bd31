#include "apps/cli/peer_names.h"

#include <algorithm>

namespace qkv::apps {
namespace {

struct Names {
  std::string_view own, theirs;  // separated by spaces
};

constexpr Names kNames[] = {
    {"max-new-tokens",
     "max-length max-tokens n-predict predict n max-decoding-length max-len-b max-len max-output-length "
     "max-completion-tokens"},
    {"beam", "num-beams beam-size b beam-width"},
    {"nbest", "num-return-sequences num-hypotheses n-best n best-of"},
    {"min-new-tokens", "min-length min-tokens min-decoding-length min-len"},
    {"length-penalty", "lenpen normalize alpha length-norm n"},
    {"coverage-penalty", "coverage-norm beta"},
    {"no-repeat-ngram", "no-repeat-ngram-size block-ngram-repeat"},
    {"repetition-penalty", "repeat-penalty"},
    {"forbid", "bad-words-ids bad-words suppress-sequences"},
    {"sample", "do-sample sampling output-sampling random-sampling"},
    {"temperature", "temp sampling-temperature random-sampling-temp"},
    {"top-k", "sampling-topk topk random-sampling-topk"},
    {"top-p", "sampling-topp topp random-sampling-topp"},
    {"min-p", "minp"},
    {"seed", "s random-seed"},
    {"scores", "with-score with-scores word-scores return-scores output-scores report-score"},
    {"alignments", "alignment print-alignment return-alignment report-align return-attention"},
    {"prefixes", "prefix-size target-prefix"},
    {"ensemble", "models weights"},
    {"shortlist", "use-vmap vmap"},
    {"max-source-tokens", "max-input-length max-source-length max-length"},
    {"truncate", "truncation max-length-crop"},
    {"prefill-tokens", "batch-size ubatch-size b ub"},
    {"chunk-lines", "batch-size buffer-size read-batch-size mini-batch"},
    {"batch-tokens",
     "max-tokens mini-batch-words max-batch-size batch-size mini-batch per-device-train-batch-size "
     "train-batch-size max-batch-tokens"},
    {"batch-images", "batch-size per-device-train-batch-size"},
    {"batch-pairs", "batch-size per-device-train-batch-size"},
    {"cache-dtype", "cache-type-k cache-type-v kv-cache-dtype ctk ctv"},
    {"threads", "t num-threads cpu-threads intra-threads inter-threads threads-batch num-workers"},
    {"dtype", "torch-dtype compute-type quantization gemm-type load-in-8bit int8 bf16 fp16"},
    {"adapter", "lora adapter-name-or-path peft-model lora-path"},
    {"pool", "pooling pooling-mode pooling-strategy"},
    {"normalize", "normalize-embeddings embd-normalize"},
    {"max-length", "max-seq-length max-len max-source-positions max-position-embeddings max-source-length"},
    {"top", "top-k k"},
    {"model",
     "model-name-or-path pretrained-model-name-or-path model-path model-dir path checkpoint m models"},
    {"text", "prompt p sentence"},
    {kReadFile, "input i file f src source input-file test-file"},
    {kWriteFile, "output o out output-file hyp results-path"},
    {"out", "output-dir save-dir model output output-path save-model o"},
    {"resume", "resume-from-checkpoint restore-file train-from continue"},
    {"overwrite", "overwrite-output-dir no-reload force"},
    {"from",
     "model-name-or-path finetune-from-model pretrained-model pretrained-model-name-or-path base-model "
     "model"},
    {"train", "train-file data data-path trainpref train-data corpus dataset"},
    {"valid", "validation-file validpref valid-data eval-file dev valid-sets"},
    {"src", "train-sets source source-file train-src trainpref"},
    {"tgt", "target target-file trg train-tgt"},
    {"valid-src", "valid-sets valid-source validpref"},
    {"valid-tgt", "valid-target valid-trg"},
    {"ref", "tgt target reference references trg"},
    {"test", "data test-file input"},
    {"source-lang", "src-lang s"},
    {"target-lang", "tgt-lang trg-lang t"},
    {"preset", "arch a task-size model-size"},
    {"vocab", "vocabs src-vocab sentencepiece-model spm-model"},
    {"vocab-kind", "model-type"},
    {"vocab-size", "dim-vocabs nwordssrc"},
    {"tokenizer", "tokenizer-name tokenizer-file bpe"},
    {"learning-rate", "lr learn-rate l max-lr"},
    {"warmup-steps", "warmup-updates lr-warmup num-warmup-steps warmup-ratio warmup"},
    {"schedule", "lr-scheduler lr-scheduler-type scheduler"},
    {"max-epochs", "num-train-epochs epochs max-epoch after-epochs e num-epochs"},
    {"max-steps", "max-update after-batches train-steps total-num-update num-train-steps steps iterations"},
    {"max-minutes", "stop-time-hours max-time"},
    {"validate-every", "eval-steps valid-freq validate-interval-updates validate-interval valid-steps"},
    {"patience", "early-stopping early-stopping-patience"},
    {"checkpoint-every", "save-steps save-freq save-interval-updates save-checkpoint-steps"},
    {"accumulate", "gradient-accumulation-steps update-freq optimizer-delay accum-count grad-accum"},
    {"recompute", "gradient-checkpointing checkpoint-activations"},
    {"precision", "fp16 bf16 amp"},
    {"label-smoothing", "label-smoothing-factor"},
    {"dropout", "hidden-dropout-prob transformer-dropout resid-pdrop"},
    {"average-decay", "exponential-smoothing ema-decay"},
    {"average-last", "num-epoch-checkpoints"},
    {"mask-rate", "mlm-probability mask-prob"},
    {"context", "block-size ctx-size c tokens-per-sample seq-length n-ctx"},
    {"lora", "lora-r use-lora r"},
    {"lora-targets", "target-modules"},
    {"quiet", "silent q no-progress-bar"},
    {"d-model", "hidden-size n-embd dim-emb encoder-embed-dim decoder-embed-dim rnn-size word-vec-size"},
    {"d-ff",
     "intermediate-size n-inner transformer-dim-ffn encoder-ffn-embed-dim decoder-ffn-embed-dim ffn-dim"},
    {"layers", "num-hidden-layers n-layer num-layers decoder-layers encoder-layers"},
    {"encoder-layers", "enc-depth num-encoder-layers layers num-layers"},
    {"decoder-layers", "dec-depth num-decoder-layers"},
    {"heads",
     "num-attention-heads n-head transformer-heads encoder-attention-heads decoder-attention-heads "
     "num-heads"},
    {"key-heads", "num-key-value-heads n-kv-heads"},
    {"max-positions", "max-position-embeddings n-positions max-source-positions"},
    {"attention-dropout", "attention-probs-dropout-prob attn-pdrop transformer-dropout-attention"},
    {"activation", "hidden-act activation-fn activation-function transformer-ffn-activation"},
    {"epsilon", "layer-norm-eps layer-norm-epsilon adam-epsilon adam-eps"},
    {"beta1", "adam-beta1"},
    {"beta2", "adam-beta2"},
    {"clip-norm", "max-grad-norm"},
    {"log-every", "logging-steps log-interval disp-freq"},
    {"keep-checkpoints", "save-total-limit keep-last-epochs"},
    {"port", "p"},
    {"translation", "translate mt nmt seq2seq"},
    {"lm", "gpt gpt2 clm causal-lm language-model language-modeling causal-language-modeling llama"},
    {"classify", "classification text-classification sequence-classification sentiment glue classifier"},
    {"tag", "ner pos token-classification tagging tagger"},
    {"answer", "qa question-answering squad extractive-qa"},
    {"max-answer-tokens", "max-answer-length max-answer-len"},
    {"window", "max-seq-length max-seq-len"},
    {"shared", "doc-stride stride"},
    {"unanswerable", "handle-impossible-answer version-2-with-negative"},
    {"pretrain-bert", "bert mlm masked-lm masked-language-modeling pretrain"},
    {"image", "vit image-classification images"},
    {"embed",
     "sentence-embeddings sentence-transformers embeddings embedding encode feature-extraction sts splade"},
    {"generate", "complete chat cli text-generation run infer continue prompt"},
    {"translate", "interactive decode marian-decoder translation"},
    {"fill-mask", "fillmask mask unmask"},
    {"train", "finetune fine-tune fit"},
    {"evaluate", "eval test validate"},
    {"bleu", "sacrebleu chrf"},
    {"tokenize", "encode spm-encode decode detokenize preprocess"},
    {"train-tokenizer", "spm-train learn-bpe build-vocab tokenizer"},
    {"quantize", "convert llama-quantize"},
    {"inspect", "info show summary count params"},
    {"attention", "explain visualize visualise heatmap bertviz"},
    {"score", "perplexity logprob scorer marian-scorer"},
    {"serve", "server api-server llama-server listen"},
    {"self-test", "check doctor selftest"},
    {"bench", "benchmark llama-bench"},
    {"merge", "merge-and-unload export-lora merge-adapter"},
    {"version", "v"},
    {"help", "h usage"},
};

bool has_word(std::string_view words, std::string_view word) {
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::vector<std::string_view> names_for_peers(std::string_view theirs) {
  std::vector<std::string_view> own;
  for (const Names& names : kNames) {
    if (has_word(names.theirs, theirs)) own.push_back(names.own);
  }
  return own;
}

}  // namespace qkv::apps
