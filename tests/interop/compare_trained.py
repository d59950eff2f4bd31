"""Holds qkv to PyPI's transformers with trained weights: model folders, and lines of real text.

    python tests/interop/compare_trained.py --dump build/release/tests/dump_family --qkv build/release/bin/qkv \
        --text FILE DIR...

For each folder of a language model or an encoder of texts: token ids, offsets and decoded text of all lines; hidden states
and logits within 1e-4 and attention weights within 1e-5 for some of them; the same greedy text for 50 steps behind the
beginnings of --prompts lines. Of a folder of sentence-transformers also the vectors of all lines. transformers rounds as well, and
through 30 layers of trained weights that adds up: so each number is also held to what transformers computes in float64. Prints
tables, and ends with status 1 where something does not hold to float64, or other than numbers is not equal. Needs torch, transformers, safetensors, and sentence-transformers for its folders.
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
LONGEST = 256  # tokens of a line whose hidden states are compared
PROMPT = 12    # tokens
VECTORS = 1e-5  # of length 1


def opened(folder, dtype):
    config = transformers.AutoConfig.from_pretrained(folder)
    model_class = getattr(transformers, config.architectures[0])
    return model_class.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def compare_numbers(folder, texts, arguments):
    """[(kind, largest number, qkv to transformers, qkv to float64, transformers to float64)]"""
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
    """Of sentence-transformers: (largest difference, least cosine)"""
    from sentence_transformers import SentenceTransformer
    expected = SentenceTransformer(str(folder), device="cpu").encode(lines, batch_size=1)
    run = subprocess.run([arguments.qkv, "embed", folder, "--json"], input="\n".join(lines) + "\n", check=True,
                         capture_output=True, text=True)
    found = np.array([json.loads(line)["vector"] for line in run.stdout.splitlines()], dtype=np.float64)
    cosines = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    return float(np.abs(found - expected).max()), float(cosines.min())


def compare(folder, lines, arguments):
    """Prints its table; whether everything holds."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    differences, tokens = compare_tokenizers.compare(folder / "tokenizer.json", [line.encode() for line in lines], arguments.qkv)
    holds = differences == 0
    print(f"### {folder.name}: {len(lines)} lines, {tokens} tokens, {differences} differences of tokenizers\n")
    texts = [torch.tensor(tokenizer(line)["input_ids"][:LONGEST]) for line in lines]
    texts = [text for text in texts if len(text) >= PROMPT][:arguments.numbers]
    print("| what | bound | qkv to transformers | qkv to float64 | transformers to float64 |\n| --- | --- | --- | --- | --- |")
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
        print(f"| vectors, least cosine {cosine:.7f} | {VECTORS:.0e} | {difference:.1e}{', NO' if difference > VECTORS else ''} | | |")
    print(flush=True)
    return holds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--dump", required=True, help="the program built from tests/interop/dump_family.cc")
    parser.add_argument("--qkv", required=True, help="the program")
    parser.add_argument("--text", required=True, type=Path, help="a file of real text, a sentence a line")
    parser.add_argument("--lines", type=int, default=200, help="of it, evenly out of the whole (default: %(default)s)")
    parser.add_argument("--numbers", type=int, default=20, help="of those, whose states are compared (default: %(default)s)")
    parser.add_argument("--prompts", type=int, default=5, help="of those, that are gone on with (default: %(default)s)")
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
