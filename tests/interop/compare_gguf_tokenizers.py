"""Compares `qkv tokenize FILE.gguf` with llama.cpp's own tokenizer on random and adversarial texts: ids must be equal.

    python tests/interop/compare_gguf_tokenizers.py --qkv build/release/bin/qkv --count 10000 [SmolLM2-135M-Instruct.Q4_1.gguf ...]

Beside the given files, it compares four that it writes: SentencePiece's byte pairs as LLaMA has them, byte-level pairs as Qwen 2
and as GPT-2 have them, and BERT's WordPiece, each trained on the repository's pages. Texts are those of compare_tokenizers.py, without invalid UTF-8,
and without the characters for which llama.cpp's tables of Unicode and utf8proc's differ. Qwen's own tokenizer composes characters
(NFC), and so does qkv; llama.cpp does not, and gets composed texts. Texts with a byte that has no token are left out.

Needs xllamacpp (llama.cpp), gguf, numpy, tokenizers and sentencepiece from PyPI.
"""

import argparse
import ctypes
import json
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import gguf
import numpy as np
import sentencepiece
import xllamacpp
from compare_tokenizers import characters, differing_characters, random_text
from gguf import TokenType
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

CORPUS = [Path(__file__).parents[2] / path for path in ("README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/serving.md")]
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


class ModelParameters(ctypes.Structure):
    """llama_model_params, whose fields differ between versions: passed as llama.cpp returned it. The callee reads the part it knows."""
    _fields_ = [("bytes", ctypes.c_uint64 * 128)]


class Peer:
    """llama.cpp's tokenizer, by its C interface (llama.h)."""

    llama = ctypes.CDLL(next(Path(xllamacpp.__file__).parent.glob("xllamacpp*.so")))
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda level, text, data: None)

    def __init__(self, path):
        llama = self.llama
        llama.llama_log_set(self.quiet, None)
        llama.llama_backend_init()
        llama.llama_model_default_params.restype = ModelParameters
        llama.llama_model_load_from_file.argtypes = [ctypes.c_char_p, ModelParameters]
        for name in ("llama_model_load_from_file", "llama_model_get_vocab"):
            getattr(llama, name).restype = ctypes.c_void_p
        llama.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
        llama.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32),
                                           ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]
        model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        if not model:
            sys.exit(f"llama.cpp does not open {path}")
        self.vocabulary = llama.llama_model_get_vocab(model)

    def ids(self, text):
        room = (ctypes.c_int32 * (len(text) + 16))()
        count = self.llama.llama_tokenize(self.vocabulary, text, len(text), room, len(room), True, True)
        return list(room[:count])


def write_model(path, add_tokenizer):
    """A model of one layer, for llama.cpp opens no vocabulary alone by default."""
    writer = gguf.GGUFWriter(path, "llama")
    width, rng = 32, np.random.default_rng(1)
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(width)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width)
    tokens = add_tokenizer(writer)

    def add(name, *shape):
        writer.add_tensor(name, rng.standard_normal(shape, np.float32))
    add("token_embd.weight", tokens, width)
    add("output_norm.weight", width)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        add(f"blk.0.{name}.weight", width, width)
    for name in ("attn_norm", "ffn_norm"):
        add(f"blk.0.{name}.weight", width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_sentencepiece(writer):
    """LlamaModel.set_vocab() of convert_hf_to_gguf.py."""
    with tempfile.TemporaryDirectory() as folder:
        sentencepiece.SentencePieceTrainer.train(input=",".join(map(str, CORPUS)), model_prefix=f"{folder}/m", vocab_size=2500,
                                                 model_type="bpe", normalization_rule_name="identity", byte_fallback=True,
                                                 remove_extra_whitespaces=False, split_digits=True, minloglevel=2,
                                                 user_defined_symbols=["<|im_start|>", "<mask>"])
        model = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/m.model")
    ids = range(model.vocab_size())
    kinds = {"<|im_start|>": TokenType.USER_DEFINED, "<mask>": TokenType.USER_DEFINED}
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([model.id_to_piece(i) for i in ids])
    writer.add_token_scores([model.get_score(i) for i in ids])
    writer.add_token_types([TokenType.UNKNOWN if model.is_unknown(i) else TokenType.CONTROL if model.is_control(i) else
                            TokenType.BYTE if model.is_byte(i) else kinds.get(model.id_to_piece(i), TokenType.NORMAL) for i in ids])
    writer.add_bos_token_id(model.bos_id())
    writer.add_eos_token_id(model.eos_id())
    writer.add_unk_token_id(model.unk_id())
    return len(ids)


def add_byte_pairs(writer, name, split, special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split
    tokenizer.train([str(path) for path in CORPUS],
                    trainers.BpeTrainer(vocab_size=2500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.get)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list(tokens + special)
    writer.add_token_types([TokenType.NORMAL] * len(tokens) + [TokenType.CONTROL] * len(special))
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(len(tokens))
    writer.add_eos_token_id(len(tokens))
    return len(tokens) + len(special)


def add_qwen2(writer):
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return add_byte_pairs(writer, "qwen2", split, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])


def add_gpt2(writer):
    return add_byte_pairs(writer, "gpt-2", pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])


def add_bert(writer):
    """BertModel.set_vocab() of convert_hf_to_gguf.py, with the special tokens where BERT's first vocabulary has them."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", *(f"[unused{i}]" for i in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train([str(path) for path in CORPUS], trainers.WordPieceTrainer(vocab_size=2500, special_tokens=special, show_progress=False))
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.get)
    used = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([one if one in special else one[2:] if one.startswith("##") else "\u2581" + one for one in tokens])
    writer.add_token_types([TokenType.CONTROL if one in used else TokenType.UNUSED if one in special else TokenType.NORMAL for one in tokens])
    writer.add_unk_token_id(100)
    writer.add_sep_token_id(102)
    writer.add_pad_token_id(0)
    writer.add_mask_token_id(103)
    return len(tokens)


def own_ids(qkv, path, texts):
    result = subprocess.run([qkv, "tokenize", str(path), "--ids", "--null"], input=b"".join(text + b"\0" for text in texts),
                            capture_output=True)
    if result.returncode != 0:
        sys.exit(result.stderr.decode())
    return [[int(token) for token in line.split()] for line in result.stdout.split(b"\n")[:-1]]


def bytes_without_tokens(path):
    """Of a byte-level vocabulary. The tokenizers package, and qkv, join the neighbours of such a byte; llama.cpp does not."""
    fields = gguf.GGUFReader(path).fields
    if fields["tokenizer.ggml.model"].contents() != "gpt2":
        return set()
    tokens = set(fields["tokenizer.ggml.tokens"].contents())
    spelling = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return {c for c in range(1, 128) if spelling.pre_tokenize_str(chr(c))[0][0] not in tokens}


def differs_in_bert(text):
    """llama.cpp drops marks of all kinds, BERT those without a width; BERT takes a word of more than 100 letters for unknown; llama.cpp
    finds the beginning of a word at U+2581, with which its vocabulary marks one; and it divides at \\v, \\f and U+0085, which BERT drops."""
    return any(unicodedata.category(c) in ("Mc", "Me") or c in "\u2581\v\f\x85" for c in text) or any(len(word) > 100 for word in text.split())


def compare(path, texts, qkv):
    peer, differences, tokens = Peer(path), 0, 0
    missing = bytes_without_tokens(path)
    texts = [text for text in texts if missing.isdisjoint(text)]
    if gguf.GGUFReader(path).fields["tokenizer.ggml.model"].contents() == "bert":
        texts = [text for text in texts if not differs_in_bert(text.decode())]
    for text, found in zip(texts, own_ids(qkv, path, texts), strict=True):
        expected = peer.ids(text)
        tokens += len(expected)
        if found == expected:
            continue
        differences += 1
        if differences <= 5:
            print(f"{path.name}: {text.decode()!r}\n  qkv       {found}\n  llama.cpp {expected}", file=sys.stderr)
    return differences, len(texts), tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--qkv", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    differing = differing_characters()
    allowed = [c for c in characters() if c not in differing and c != "\0"]
    table = str.maketrans(dict.fromkeys(differing, "?"))
    rng = random.Random(arguments.seed)
    texts = []
    while len(texts) < arguments.count:
        text = unicodedata.normalize("NFC", random_text(rng, allowed).decode("utf-8", "ignore").translate(table))
        texts.append(text.encode())
    worst = 0
    print("| vocabulary | texts | tokens | differences |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        own = []
        for name, add in (("llama", add_sentencepiece), ("qwen2", add_qwen2), ("gpt2", add_gpt2), ("bert", add_bert)):
            own.append(Path(folder) / f"{name}.gguf")
            write_model(own[-1], add)
        for path in arguments.files + own:
            differences, count, tokens = compare(path, texts, arguments.qkv)
            worst = max(worst, differences)
            print(f"| {path.stem} | {count} | {tokens} | {differences} |", flush=True)
    sys.exit(worst > 0)


if __name__ == "__main__":
    main()
