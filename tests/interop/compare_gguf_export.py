"""Compares the GGUF files that `qkv export` writes with llama.cpp (PyPI's xllamacpp) and PyPI's gguf.

    python tests/interop/compare_gguf_export.py build/release/bin/qkv [MODEL ...] [--encodings f32 q8_0]

MODEL: a folder, or a name below; without any, all names. "trained" is a small model of llama's blocks with rows of 256 numbers,
trained on some sentences until it knows them by heart; the others are models of transformers with random weights. Exports each in
every encoding, and compares:
- values: gguf dequantises every tensor to the numbers that qkv writes again as f32, bit for bit;
- texts: the ids of 32 greedy tokens of llama.cpp after each prompt, whose ids llama.cpp's own tokenizer makes, equal qkv's from the
  same file. Where they part, "ties" counts those whose two tokens are nearer to each other (in llama.cpp's log-probabilities) than
  twice the noise, the largest difference between the two programs in the log-probability of a token on which they agree;
- vectors: of encoders, the least cosine of llama.cpp's and qkv's embeddings of a sentence;
- error: the squared error of all matrices as a share of that of ggml's own quantiser, at most 1.

Prints a table, and exits with status 1 if values, an error, a text that is no tie, or a vector (below 0.999; below 0.99 with 4 or 5
bits) differ. Needs gguf, numpy, tokenizers, torch, transformers and xllamacpp.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import random_families as random_models
import xllamacpp
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ENCODINGS = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k", "iq4_nl")
NEW = 32
SENTENCES = ("The old clock in the hall struck nine, and nobody in the house was awake to hear it.",
             "Seven grey geese flew over the mill while the miller's daughter counted 12 sacks of flour.",
             "Never trust a map that was drawn by a man who has not left his village in 40 years.",
             "She put the letter on the table, looked at it for a while, and then she burned it.",
             "In winter the river freezes, and the children of both villages meet in the middle of it.",
             "A good carpenter measures twice, but my uncle measured five times and still cut the board too short.")
PROMPTS = ("The old clock", "Seven grey", "Never trust", "She put the letter", "In winter the river", "A good carpenter")
SIZE = {"positions": 256, "d_model": 256, "layers": 2, "heads": 4, "d_ff": 512}
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# ASCII alone: llama.cpp's answers lack tokens that end within a character.
TEXTS = [line for path in ("README.md", "docs/architecture.md")
         for line in (Path(__file__).parents[2] / path).read_text().encode("ascii", "ignore").decode().splitlines()]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def train(qkv, folder):
    text = folder / "text.txt"
    text.write_text("\n\n".join(SENTENCES * 40) + "\n")
    sizes = {"model.d_model": 256, "model.d_ff": 512, "model.heads": 4, "model.layers": 2}
    run(qkv, "train", "lm", "--train", text, "--out", folder / "trained", "--blocks", "llama", "--context", 64, "--vocab-size", 400,
        "--valid-share", 0, "--batch-tokens", 512, "--max-steps", 150, "--dropout", 0, "--average-decay", 0, "--warmup-steps", 20,
        "--quiet", *[word for name, value in sizes.items() for word in ("--set", f"{name}={value}")])
    return folder / "trained"


def byte_level(pattern=None):
    """As GPT-2 divides texts, or by a pattern."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if pattern:
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), tokenizer.pre_tokenizer])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=600, special_tokens=["<pad>", "<s>", "</s>"], show_progress=False))
    return json.loads(tokenizer.to_str())


def pieces():
    """As Gemma has them."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=600, special_tokens=["<pad>", "<s>", "</s>", "<unk>"],
                                                             show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    parts = json.loads(tokenizer.to_str())
    vocabulary = parts["model"]["vocab"]
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    return parts


def words():
    """As BERT has them."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(TEXTS, trainers.WordPieceTrainer(
        vocab_size=600, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return json.loads(tokenizer.to_str())


def decoder(family, **other):
    return lambda size: random_models.llama(size, family=family, **other)


GEMMA = {"key_heads": 2, "head_dim": 64}
LATER = GEMMA | {"query_pre_attn_scalar": 64, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
RANDOM = {
    "llama": (byte_level, decoder("Llama", key_heads=2, rope_parameters=LLAMA3)),
    "qwen2": (lambda: byte_level(QWEN), decoder("Qwen2", key_heads=2, tie_word_embeddings=True)),
    "qwen3": (lambda: byte_level(QWEN), decoder("Qwen3", key_heads=2, head_dim=64)),
    "gemma": (pieces, decoder("Gemma", **GEMMA)),
    "gemma2": (pieces, decoder("Gemma2", **LATER, attn_logit_softcapping=2.0, final_logit_softcapping=8.0)),
    "gemma3_text": (pieces, decoder("Gemma3Text", **LATER)),
    "phi3": (byte_level, decoder("Phi3", key_heads=2, pad_token_id=0, sliding_window=None)),
    "phi3_longrope": (byte_level, lambda size: random_models.llama(
        size, 2, "Phi3", pad_token_id=0, sliding_window=None, rms_norm_eps=1e-3, **random_models.longrope(size))),
    "gpt2": (byte_level, random_models.gpt2),
    "bert": (words, lambda size: random_models.bert(size, "Model")),
    "nomic_bert": (words, lambda size: random_models.nomic_bert(size, "Model")),
}
ENCODERS = ("bert", "nomic_bert")


def spread(model, hidden):
    """Random weights that make texts of many tokens, none of them hidden: llama.cpp's answers lack control tokens and single bytes."""
    model.get_output_embeddings().weight.data[hidden] = 0
    if not model.config.tie_word_embeddings:
        return
    # A tied table of usual size would make the model repeat its last token.
    scale = 0.01
    model.get_input_embeddings().weight.data *= scale
    last = model.transformer.ln_f if hasattr(model, "transformer") else model.model.norm
    unit = 1 if model.config.model_type in random_models.MINUS_ONE else 0
    last.weight.data = (last.weight.data + unit) / scale / 4 - unit
    if hasattr(model, "transformer"):
        model.transformer.wpe.weight.data *= scale


def write_random(name, folder):
    make_tokenizer, make_model = RANDOM[name]
    tokenizer = make_tokenizer()
    model = random_models.randomized(make_model(SIZE | {"vocabulary": len(tokenizer["model"]["vocab"])}).eval(), 1)
    if name not in ENCODERS:
        vocabulary = tokenizer["model"]["vocab"]
        spread(model, [token for text, token in vocabulary.items() if text.startswith("<") and text.endswith(">") and len(text) > 2])
    called = name.replace("phi3", "phi")  # llama.cpp expects Phi-3's own vocabulary of a model with this name
    model.save_pretrained(folder / called)
    (folder / called / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / called / "generation_config.json").unlink(missing_ok=True)
    if name in ENCODERS:
        (folder / called / "1_Pooling").mkdir()
        (folder / called / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": "mean"}))
        modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
        (folder / called / "modules.json").write_text(json.dumps(
            [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in modules]))
    return folder / called


class LlamaCpp:
    def __init__(self, file, encodes):
        options = xllamacpp.CommonParams()
        options.model.path = str(file)
        options.n_ctx, options.n_parallel, options.warmup, options.fit_params, options.verbosity = 256, 1, False, False, 0
        options.embedding = encodes
        options.cache_type_k = options.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
        self.server = xllamacpp.Server(options)

    def tokens(self, prompt):
        """The greedy tokens' ids, and for each the likeliest tokens' log-probabilities."""
        answer = self.server.handle_completions({"prompt": prompt, "max_tokens": NEW, "temperature": 0, "logprobs": 10,
                                                 "cache_prompt": False})
        content = answer["choices"][0]["logprobs"]["content"]
        return [one["id"] for one in content], [{top["id"]: top["logprob"] for top in one["top_logprobs"]} for one in content]

    def vectors(self, texts):
        return np.array([one["embedding"] for one in self.server.handle_embeddings({"input": list(texts)})["data"]])


class Texts:
    """The greedy texts of both programs from one file."""

    def __init__(self, qkv, file):
        llama = LlamaCpp(file, False)
        self.noise, self.parted = 0.0, []
        for prompt in PROMPTS:
            ours = json.loads(run(qkv, "generate", file, prompt, "--max-new-tokens", NEW, "--json"))["texts"][0]
            ids, likely = llama.tokens(prompt)
            shared = min(len(ids), len(ours["ids"]))  # llama.cpp's answers may have the end token
            at = next((i for i in range(shared) if ids[i] != ours["ids"][i]), shared)
            for i in range(at):
                self.noise = max(self.noise, abs(likely[i][ids[i]] - ours["token_log_probabilities"][i]))
            if at < shared or len(ids) < len(ours["ids"]):
                own = likely[at].get(ours["ids"][at]) if at < shared else None
                self.parted.append((prompt, at, float("inf") if own is None else likely[at][ids[at]] - own))

    def others(self):
        """Those that are no ties."""
        return [one for one in self.parted if one[2] > 2 * self.noise]


def least_cosine(qkv, file):
    theirs = LlamaCpp(file, True).vectors(SENTENCES)
    done = subprocess.run([qkv, "embed", file], input="".join(text + "\n" for text in SENTENCES), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    ours = np.array([[float(number) for number in line.split()] for line in done.stdout.splitlines()])
    return float((ours * theirs).sum(1).min() / max(1, np.linalg.norm(ours, axis=1).max() * np.linalg.norm(theirs, axis=1).max()))


def numbers(file):
    return {tensor.name: gguf.quants.dequantize(np.array(tensor.data), tensor.tensor_type).reshape(-1)
            for tensor in gguf.GGUFReader(file).tensors}


def ggml_error(values, kind):
    """The squared error of ggml's own quantiser."""
    library = ctypes.CDLL(str(next(Path(xllamacpp.__file__).parent.glob("*.so"))))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                            ctypes.c_int64, ctypes.c_void_p]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    values = np.ascontiguousarray(values, dtype=np.float32)
    raw = np.zeros((len(values), values.shape[1] // block * size), dtype=np.uint8)
    library.ggml_quantize_chunk(kind.value, values.ctypes.data, raw.ctypes.data, 0, *values.shape, None)
    return np.square(gguf.quants.dequantize(raw, kind).astype(np.float64) - values).sum()


def error_share(file, exact):
    ours = theirs = 0.0
    for tensor in gguf.GGUFReader(file).tensors:
        if gguf.GGML_QUANT_SIZES[tensor.tensor_type][0] == 1:
            continue
        values = exact[tensor.name].reshape(-1, int(tensor.shape[0]))
        read = gguf.quants.dequantize(np.array(tensor.data), tensor.tensor_type).reshape(values.shape)
        ours += np.square(read.astype(np.float64) - values).sum()
        theirs += ggml_error(values, tensor.tensor_type)
    return ours / theirs if theirs else None


def compare(qkv, model, encodings, folder):
    failed, exact = False, None
    encodes = (model / "modules.json").exists()
    for encoding in encodings:
        file, again = folder / f"{encoding}.gguf", folder / "again.gguf"
        run(qkv, "export", model, "--to", file, "--encoding", encoding)
        run(qkv, "export", file, "--to", again, "--encoding", "f32")
        found, expected = numbers(again), numbers(file)
        exact = exact or expected
        values = sum(np.array_equal(found[key].view(np.uint32), expected[key].view(np.uint32)) for key in expected)
        share = error_share(file, exact) if encodings[0] == "f32" else None
        failed |= values < len(expected) or (share or 0) > 1
        if encodes:
            cosine = least_cosine(qkv, file)
            failed |= cosine < (0.99 if encoding.startswith(("q4", "q5", "iq4")) else 0.999)
            result = f"vectors {cosine:.6f}"
        else:
            texts = Texts(qkv, file)
            failed |= bool(texts.others())
            result = f"texts {len(PROMPTS) - len(texts.parted)}, ties {len(texts.parted) - len(texts.others())}, noise {texts.noise:.1e}"
            for prompt, at, gap in texts.parted:
                print(f"  {encoding}: {prompt!r}, token {at}: gap {gap:.1e}")
        print(f"{model.name:24}{encoding:8}{file.stat().st_size:>11}{f'{values}/{len(expected)}':>10}   {result:36}"
              f"{'' if share is None else f'{share:.3f}'}", flush=True)
        file.unlink()
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("qkv", type=Path)
    parser.add_argument("models", nargs="*", default=["trained", *RANDOM])
    parser.add_argument("--encodings", nargs="+", default=ENCODINGS, choices=ENCODINGS)
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for one in arguments.models:
            model = train(arguments.qkv, folder) if one == "trained" else write_random(one, folder) if one in RANDOM else Path(one)
            failed |= compare(arguments.qkv, model, arguments.encodings, folder)
    sys.exit(failed)


main()
