"""Writes tests/models/golden/<case>: small model folders with random weights, saved by transformers, and their results in
expected.safetensors.

Run from the repository root, with torch, transformers and safetensors installed (a minute):

    python tests/golden/families.py [CASE...]
"""

import json
import shutil
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_file
from safetensors.torch import save_file as save_torch_file

sys.path.insert(0, str(Path(__file__).parent.parent / "interop"))
from random_families import (CASES, causal, greedy, of_both, of_images, of_pairs, outputs, outputs_of_both,  # noqa: E402
                             outputs_of_images, outputs_of_pairs, random_images, random_model, random_texts, written)

SIZE = {"vocabulary": 23, "positions": 20, "d_model": 8, "layers": 2, "heads": 2, "d_ff": 12}
ROOT = Path("tests/models/golden")

torch.set_num_threads(1)


def write(name, **how):
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    seed = zlib.crc32(name.encode()) % 1000
    model = random_model(name.split("+")[0], SIZE, seed)
    if name.endswith("16"):  # 16-bit weights, results in 32 bits
        for parameter in model.parameters():
            parameter.data = parameter.data.to(torch.bfloat16 if name.endswith("bf16") else torch.float16)
    model.save_pretrained(folder, **how)
    for parameter in model.parameters():
        parameter.data = parameter.data.float()
    config = json.loads((folder / "config.json").read_text())
    del config["transformers_version"]  # keeps the folders independent of the version
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    if of_images(model):
        save_file(outputs_of_images(model, random_images(model, 2, seed)), folder / "expected.safetensors")
        return
    if of_both(model):
        texts = random_texts(model, (7, 1, 10), seed)[0]
        save_file(outputs_of_both(model, texts, random_images(model, 2, seed)), folder / "expected.safetensors")
        return
    if of_pairs(model):
        sources, targets = random_texts(model, (7, 1, 10), seed)[0], random_texts(model, (3, 8, 12), seed + 9)[0]
        expected = outputs_of_pairs(model, sources, targets)
        expected["greedy"] = written(model, sources[0], max_new_tokens=12, min_new_tokens=12)
        save_file(expected, folder / "expected.safetensors")
        return
    texts, types = random_texts(model, (7, 1, 10), seed)
    if name.endswith("+pads"):  # as text: they are attended to
        for ids in texts:
            ids[1::3] = model.config.pad_token_id
    expected = outputs(model, texts, types)
    if causal(model):
        expected["greedy"] = greedy(model, texts[0], 12)
    save_file(expected, folder / "expected.safetensors")


def packed(random, *shape):
    """MXFP4 (OCP Microscaling Formats 1.0): blocks and scales of random weights [*shape], and their values."""
    elements = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
    elements = np.concatenate([elements, -elements])
    codes = random.integers(0, 16, (*shape[:-1], shape[-1] // 32, 32))
    scales = random.integers(122, 126, codes.shape[:-1]).astype(np.uint8)
    values = elements[codes] * np.exp2(scales.astype(np.float32) - 127)[..., None]
    blocks = (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)
    return torch.from_numpy(blocks), torch.from_numpy(scales), torch.from_numpy(values.reshape(shape))


def write_mxfp4(name):
    """gpt-oss with experts in MXFP4, as the hub has it."""
    size = SIZE | {"d_model": 32, "d_ff": 32}
    model = random_model("gpt_oss", size, 7)
    random = np.random.default_rng(7)
    replaced = {}
    for key, parameter in model.named_parameters():
        if ".experts." not in key or parameter.dim() != 3:
            continue
        blocks, scales, values = packed(random, *parameter.transpose(1, 2).shape)
        parameter.data = values.transpose(1, 2).contiguous()
        replaced |= {key + "_blocks": blocks, key + "_scales": scales}
    folder = ROOT.parent / name  # not among those that are written back as they were
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    kept = {key: value for key, value in tensors.items() if key + "_blocks" not in replaced}
    save_torch_file(kept | replaced, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    del config["transformers_version"]
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file(outputs(model, *random_texts(model, (7, 1, 10), 7)), folder / "expected.safetensors")


chosen = sys.argv[1:] or [*CASES, "llama_grouped+shards", "t5_gated+shards", "gpt2+bf16", "bert_pretraining+bf16", "llama+f16", "roberta_masked+pads", "gemma3+5", "mxfp4_gpt_oss"]  # +5: names of transformers 5
for case in chosen:
    if case.startswith("mxfp4"):
        write_mxfp4(case)
        continue
    write(case, **({"max_shard_size": "3KB"} if "shards" in case else {}), **({"save_original_format": False} if "+5" in case else {}))
