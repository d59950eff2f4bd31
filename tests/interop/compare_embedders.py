"""Compares `qkv embed` and `qkv rerank` with PyPI's sentence-transformers on random models with random parameters.

    python tests/interop/compare_embedders.py --qkv build/release/bin/qkv

Decoders and encoders as in random_families.py (but Qwen 2, whose tokenizer.json transformers ignores), with a tokenizer of words
that appends an end token, poolings, prompts, a length and dimensions as sentence-transformers' files have them. Prints the largest
difference of a vector, dense or sparse, as a share of its length, and of a score; exits with status 1 beyond 1e-5.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from compare_families import random_size
from random_families import random_model

LIMIT = 1e-5
POOLINGS = ("mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
EMBEDDERS = ("qwen3", "qwen3_windows", "mistral", "mistral_grouped", "llama_grouped", "llama_rope_llama3", "gemma3_text_both",
             "smollm3", "gpt2", "opt", "xlm-roberta_base", "bert_base")
SPARSE = ("bert_masked", "distilbert_masked", "roberta_masked", "modernbert_masked", "mpnet_masked", "xlm-roberta_masked", "electra_masked",
          "albert_masked", "deberta-v2_masked")
RERANKERS = ("xlm-roberta_texts", "llama_texts")


def write_tokenizer(folder, size, pad):
    words = {f"w{i}": i for i in range(size)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w3"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A w2", pair="$A w2 $B w2", special_tokens=[("w2", 2)])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": f"w{pad}", "unk_token": "w3", "padding_side": "left",
        "model_input_names": ["input_ids", "attention_mask"]}))


def write_modules(folder, types, pooling, kind):
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (folder / "modules.json").write_text(json.dumps([
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.{name}"}
        for i, (name, path) in enumerate(zip(types, ("", "1_Pooling", "2_Normalize")))]))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 40, "do_lower_case": False}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(
        {"model_type": kind, "prompts": {"query": "w5 w6 w7 "}, "default_prompt_name": None}))


def run(command, texts):
    found = subprocess.run(list(map(str, command)) + ["--json"], input="\n".join(texts) + "\n", capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit(found.stderr)
    return [json.loads(line) for line in found.stdout.splitlines()]


def random_words(random, size):
    return [" ".join(f"w{i}" for i in random.integers(3, size, length)) for length in (1, 5, 17, 60)]


def compare_vectors(case, seed, pooling, qkv, folder):
    model = random_model(case, random_size(seed), seed)
    config = model.config
    model.save_pretrained(folder)
    write_tokenizer(folder, config.vocab_size, 1)
    width = getattr(config, "hidden_size", 0)
    write_modules(folder, ("models.Transformer", "models.Pooling", "models.Normalize"),
                  {"embedding_dimension": width, "pooling_mode": pooling}, "SentenceTransformer")
    texts = random_words(np.random.default_rng(seed), config.vocab_size)
    reference = SentenceTransformer(str(folder), device="cpu")
    worst = 0.0
    for options, how in (([], {}), (["--prompt-name", "query"], {"prompt_name": "query"}),
                         (["--dimensions", width // 2], {"truncate_dim": width // 2, "normalize_embeddings": True})):
        mine = run([qkv, "embed", folder, *options], texts)
        for text, one in zip(texts, mine):
            difference = np.linalg.norm(np.array(one["vector"]) - reference.encode(text, **how))
            worst = max(worst, float(difference))
    return worst


def compare_weights(case, seed, pooling, qkv, folder):
    model = random_model(case, random_size(seed), seed)
    size = model.config.vocab_size
    model.save_pretrained(folder)
    write_tokenizer(folder, size, 1)
    strategy, activation = pooling.split()
    write_modules(folder, ("sparse_encoder.models.MLMTransformer", "sparse_encoder.models.SpladePooling"),
                  {"pooling_strategy": strategy, "activation_function": activation}, "SparseEncoder")
    texts = random_words(np.random.default_rng(seed), size)
    reference = SparseEncoder(str(folder), device="cpu", model_kwargs={"dtype": torch.float64})
    worst = 0.0
    for options, how in (([], {}), (["--prompt-name", "query"], {"prompt_name": "query"}), (["--top", 5], {"max_active_dims": 5})):
        for text, one in zip(texts, run([qkv, "embed", folder, "--sparse", *options], texts)):
            mine = np.zeros(size)
            for weight in one["weights"]:
                mine[weight["id"]] = weight["weight"]
            expected = reference.encode(text, convert_to_sparse_tensor=False, **how).numpy()
            worst = max(worst, float(np.linalg.norm(mine - expected) / np.linalg.norm(expected)))
    return worst


def compare_scores(case, seed, qkv, folder):
    model = random_model(case, random_size(seed), seed)
    model.save_pretrained(folder)
    write_tokenizer(folder, model.config.vocab_size, model.config.pad_token_id)
    query, *texts = random_words(np.random.default_rng(seed), model.config.vocab_size)
    reference = CrossEncoder(str(folder), device="cpu")
    mine = run([qkv, "rerank", folder, "--query", query], texts)
    return max(abs(one["score"] - float(reference.predict([(query, text)])[0])) for text, one in zip(texts, mine))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    holds = True
    print("| command | case | pooling | largest difference | holds |\n| --- | --- | --- | --- | --- |")
    jobs = [("embed", case, POOLINGS[-1 - i % len(POOLINGS)]) for i, case in enumerate(EMBEDDERS)]
    jobs += [("embed --sparse", case, f"{('max', 'sum')[i % 2]} {('relu', 'log1p_relu')[i // 2 % 2]}") for i, case in enumerate(SPARSE)]
    compare = {"embed": compare_vectors, "embed --sparse": compare_weights}
    for command, case, pooling in jobs + [("rerank", case, "") for case in RERANKERS]:
        worst = 0.0
        for seed in range(1, arguments.seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder)
                worst = max(worst, compare_scores(case, seed, arguments.qkv, path) if command == "rerank"
                            else compare[command](case, seed, pooling, arguments.qkv, path))
        holds &= worst <= LIMIT
        print(f"| {command} | {case} | {pooling} | {worst:.1e} | {'yes' if worst <= LIMIT else 'NO'} |", flush=True)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
