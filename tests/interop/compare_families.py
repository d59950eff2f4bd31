"""Compares qkv's families with PyPI's transformers: random configurations with random parameters.

    python tests/interop/compare_families.py --dump build/release/tests/dump_family

For each family and head, several seeds: hidden states to 1e-4, logits to 1e-4 of the largest, attention weights to 1e-5, 50 equal
greedy tokens, and for encoder-decoders an equal result of beam search. A language model or encoder-decoder that qkv has written back
has transformers' logits to 1e-5. Prints a table, and exits with status 1 if a comparison fails. Needs torch, transformers and safetensors.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file

from random_families import (CASES, causal, greedy, of_both, of_images, of_pairs, outputs, outputs_of_images, outputs_of_pairs,
                             random_images, random_model, random_texts, text_config, written)

LIMITS = {"attention": 1e-5, "written back": 1e-5}  # of everything else: 1e-4
EXACT = ("greedy", "beam")
INPUTS = ("ids", "types", "lengths", "target_ids", "target_lengths", "pixels")
STEPS = 50


def random_size(seed):
    random = np.random.default_rng(seed)
    heads = int(random.choice([2, 4, 6]))
    return {"vocabulary": int(random.integers(80, 300)), "positions": 128,
            "d_model": heads * int(random.choice([8, 10, 16, 22])), "layers": int(random.integers(1, 5)),
            "heads": heads, "d_ff": int(random.integers(20, 200))}


def compare(case, seed, dump, folder):
    model = random_model(case, random_size(seed), seed)
    model.save_pretrained(folder / "model")
    if of_both(model):
        return compare_both(model, seed, dump, folder)
    if of_images(model):
        expected = outputs_of_images(model, random_images(model, 3, seed))
    elif of_pairs(model):
        sources, targets = random_texts(model, (9, 1, 40, 64), seed)[0], random_texts(model, (5, 30, 1, 64), seed + 9)[0]
        expected = outputs_of_pairs(model, sources, targets)
        expected["greedy"] = written(model, sources[0], max_new_tokens=STEPS, min_new_tokens=STEPS)
        expected["beam"] = written(model, sources[2], max_length=40, num_beams=4, length_penalty=0.6,
                                   forced_eos_token_id=1)
    else:
        texts, types = random_texts(model, (9, 1, 40, 64), seed)
        expected = outputs(model, texts, types)
        if causal(model):
            expected["greedy"] = greedy(model, texts[0], STEPS)
    worst = worst_differences(dumped(dump, folder / "model", expected, folder), expected)
    if causal(model) or of_pairs(model):
        # A language model within a model of images is written as a model of its own.
        alone = of_pairs(model) or text_config(model) is model.config
        again = (type(model) if alone else transformers.AutoModelForCausalLM).from_pretrained(
            folder / "out.safetensors.folder", attn_implementation="eager")
        if hasattr(again.config, "num_experts_per_tok"):
            again.set_experts_implementation("eager")
        found = outputs_of_pairs(again, sources, targets) if of_pairs(model) else outputs(again, texts, types)
        worst["written back"] = worst_differences({"logits": found["logits"]}, {"logits": expected["logits"]})["logits"]
    return worst


def compare_both(model, seed, dump, folder):
    """The vectors of each encoder."""
    texts, types = random_texts(model, (9, 1, 40, 64), seed)
    pixels = random_images(model, 3, seed)
    with torch.no_grad():
        of_texts = torch.cat([model.get_text_features(ids[None]).pooler_output[0] for ids in texts]).numpy()
        of_images = model.get_image_features(pixels).pooler_output.reshape(-1).numpy()
    inputs = {"ids": torch.cat(texts).int().numpy(), "types": torch.cat(types).int().numpy(),
              "lengths": np.array([len(text) for text in texts], dtype=np.int32)}
    worst = worst_differences(dumped(dump, folder / "model", inputs, folder), {"pooled": of_texts})
    of_pixels = worst_differences(dumped(dump, folder / "model", {"pixels": pixels.numpy()}, folder), {"pooled": of_images})
    return {"pooled": max(worst["pooled"], of_pixels["pooled"])}


def dumped(dump, model, inputs, scratch, steps=STEPS):
    """qkv's outputs for the inputs among these tensors, with a model's folder."""
    save_file({name: inputs[name] for name in INPUTS if name in inputs}, scratch / "in.safetensors")
    subprocess.run([dump, model, scratch / "in.safetensors", scratch / "out.safetensors", str(steps)], check=True)
    return load_file(scratch / "out.safetensors")


def worst_differences(found, expected):
    """The largest difference of each kind of output; 0 or 1 for exact kinds."""
    worst = {}
    for name, numbers in expected.items():
        if name in INPUTS:
            continue
        kind = name.split(".")[0]
        mine = found[name].reshape(-1)
        if kind in EXACT:
            worst[kind] = max(worst.get(kind, 0.0), 0.0 if np.array_equal(mine, numbers) else 1.0)
            continue
        assert mine.shape == numbers.shape, (name, mine.shape, numbers.shape)
        difference = float(np.abs(mine.astype(np.float64) - numbers).max())
        if kind == "logits":  # a tied table of a wide model makes them large
            difference /= max(1.0, float(np.abs(numbers).max()))
        worst[kind] = max(worst.get(kind, 0.0), difference)
    return worst


def limit_of(kind):
    return 0 if kind in EXACT else LIMITS.get(kind, 1e-4)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dump", required=True, help="the program built from tests/interop/dump_family.cc")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, "
          f"{arguments.seeds} seeds; largest differences, those of logits as a share of the largest logit\n")
    kinds = ["hidden", "attention", "logits", "labels", "next_sentence", "pooled", "written back", *EXACT]
    print("| case | " + " | ".join(kinds) + " | holds |\n|" + " --- |" * (len(kinds) + 2))
    holds = True
    for case in arguments.cases:
        worst = {}
        for seed in range(1, arguments.seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                for kind, difference in compare(case, seed, arguments.dump, Path(folder)).items():
                    worst[kind] = max(worst.get(kind, 0.0), difference)
        good = all(found <= limit_of(kind) for kind, found in worst.items())
        holds &= good
        cells = [("" if kind not in worst else ("equal" if worst[kind] == 0 else "differs") if kind in EXACT
                  else f"{worst[kind]:.1e}") for kind in kinds]
        print(f"| {case} | " + " | ".join(cells) + f" | {'yes' if good else 'NO'} |", flush=True)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
