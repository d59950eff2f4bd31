"""Compares qkv with PyPI's transformers on trained weights: model folders, and lines of real text.

    python tests/interop/compare_trained.py --dump build/release/tests/dump_family --qkv build/release/bin/qkv \
        --text FILE DIR...

For each folder of a language model or text encoder: token ids, offsets and decoded text of all lines; hidden states and logits
to 1e-4 and attention weights to 1e-5 for some of them; 50 equal greedy tokens after the beginnings of --prompts lines; for
sentence-transformers folders, the vectors of all lines. As transformers also rounds, which adds up over 30 layers of trained
weights, all numbers are also compared with transformers in float64. Prints tables, and exits with status 1 if a comparison with
float64 or of exact results fails. Needs torch, transformers, safetensors, and sentence-transformers for its folders.
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

import compare_tokenizers
from compare_families import EXACT, dumped, limit_of, worst_differences
from random_families import causal, greedy, outputs

STEPS = 50
LONGEST = 256  # maximum tokens of a line for comparing hidden states
PROMPT = 12    # tokens
VECTORS = 1e-5  # of length 1


def opened(folder, dtype):
    config = transformers.AutoConfig.from_pretrained(folder)
    model_class = getattr(transformers, config.architectures[0])
    return model_class.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def compare_numbers(folder, texts, arguments):
    """[(kind, largest value, qkv to transformers, qkv to float64, transformers to float64)]"""
    model = opened(folder, torch.float32)
    types = [torch.zeros_like(text) for text in texts]
    expected = outputs(model, texts, types)
    exact = outputs(opened(folder, torch.float64), texts, types)
    with tempfile.TemporaryDirectory() as scratch:
        found = dumped(arguments.dump, folder, expected, Path(scratch), 0)
        written = []
        if causal(model):
            for text in texts[:arguments.prompts]:
                one = outputs(model, [text[:PROMPT]], [types[0][:PROMPT]])
                one["greedy"] = greedy(model, text[:PROMPT], STEPS)
                written.append(worst_differences(dumped(arguments.dump, folder, one, Path(scratch), STEPS), one)["greedy"])
    columns = [worst_differences(found, expected), worst_differences(found, exact), worst_differences(expected, exact)]
    nothing = {name: np.zeros_like(numbers) for name, numbers in exact.items()}
    columns.insert(0, worst_differences(nothing, exact))
    rows = [(kind, *(column[kind] for column in columns)) for kind in columns[0]]
    return rows + ([("greedy", None, max(written))] if written else [])


def compare_vectors(folder, lines, arguments):
    """Compares with sentence-transformers: (largest difference, minimum cosine)"""
    from sentence_transformers import SentenceTransformer
    expected = SentenceTransformer(str(folder), device="cpu").encode(lines, batch_size=1)
    run = subprocess.run([arguments.qkv, "embed", folder, "--json"], input="\n".join(lines) + "\n", check=True,
                         capture_output=True, text=True)
    found = np.array([json.loads(line)["vector"] for line in run.stdout.splitlines()], dtype=np.float64)
    cosines = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    return float(np.abs(found - expected).max()), float(cosines.min())


def compare(folder, lines, arguments):
    """Prints the table; returns whether all comparisons hold."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    differences, tokens = compare_tokenizers.compare(folder / "tokenizer.json", [line.encode() for line in lines], arguments.qkv)
    holds = differences == 0
    print(f"### {folder.name}: {len(lines)} lines, {tokens} tokens, {differences} differences of tokenizers\n")
    texts = [torch.tensor(tokenizer(line)["input_ids"][:LONGEST]) for line in lines]
    texts = [text for text in texts if len(text) >= PROMPT][:arguments.numbers]
    print("| quantity | bound | qkv to transformers | qkv to float64 | transformers to float64 |\n| --- | --- | --- | --- | --- |")
    for kind, size, *found in compare_numbers(folder, texts, arguments):
        if kind in EXACT:
            holds &= found[0] == 0
            print(f"| {kind} | equal | {'equal' if found[0] == 0 else 'OTHER TOKENS'} | | |")
            continue
        limit = limit_of(kind)
        holds &= found[1] <= limit
        cells = [f"{value:.1e}" + (", NO" if value > limit else "") for value in found]
        print(f"| {kind}, at most {size:.3g} | {limit:.0e} | " + " | ".join(cells) + " |", flush=True)
    if (folder / "modules.json").exists():
        difference, cosine = compare_vectors(folder, lines, arguments)
        holds &= difference <= VECTORS
        print(f"| vectors, minimum cosine {cosine:.7f} | {VECTORS:.0e} | {difference:.1e}{', NO' if difference > VECTORS else ''} | | |")
    print(flush=True)
    return holds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--dump", required=True, help="the program built from tests/interop/dump_family.cc")
    parser.add_argument("--qkv", required=True, help="the program")
    parser.add_argument("--text", required=True, type=Path, help="a file of real text, one sentence per line")
    parser.add_argument("--lines", type=int, default=200, help="lines, spread over the whole text (default: %(default)s)")
    parser.add_argument("--numbers", type=int, default=20, help="lines for comparing hidden states (default: %(default)s)")
    parser.add_argument("--prompts", type=int, default=5, help="lines used as prompts (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    lines = [line for line in arguments.text.read_text(encoding="utf-8").splitlines() if line.strip()]
    lines = lines[::max(1, len(lines) // arguments.lines)][:arguments.lines]
    print(f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}; largest differences\n")
    sys.exit(0 if all([compare(folder, lines, arguments) for folder in arguments.folders]) else 1)


if __name__ == "__main__":
    main()
