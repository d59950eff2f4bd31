"""Writes tests/models/golden/<case>: small model folders as transformers saves them, with random numbers, and in
expected.safetensors what they compute.

Run from the repository root, with torch, transformers and safetensors installed (a minute):

    python tests/golden/families.py
"""

import json
import shutil
import sys
import zlib
from pathlib import Path

import torch
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).parent.parent / "interop"))
from random_families import CASES, causal, greedy, outputs, random_model, random_texts  # noqa: E402

SIZE = {"vocabulary": 23, "positions": 20, "d_model": 8, "layers": 2, "heads": 2, "d_ff": 12}
ROOT = Path("tests/models/golden")

torch.set_num_threads(1)


def write(name, **how):
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    seed = zlib.crc32(name.encode()) % 1000
    model = random_model(name.split("+")[0], SIZE, seed)
    model.save_pretrained(folder, **how)
    config = json.loads((folder / "config.json").read_text())
    del config["transformers_version"]  # the folders should not change with it
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    texts, types = random_texts(model, (7, 1, 10), seed)
    expected = outputs(model, texts, types)
    if causal(model):
        expected["greedy"] = greedy(model, texts[0], 12)
    save_file(expected, folder / "expected.safetensors")


for case in CASES:
    write(case)
write("llama_grouped+shards", max_shard_size="3KB")
