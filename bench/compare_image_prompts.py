"""`qkv generate --image` beside transformers, for a folder of a language model that reads images.

    python bench/compare_image_prompts.py --qkv build/release/bin/qkv FOLDER

A JPEG file of 640 x 480 pixels and a short text, to the first new token and to the 33rd. The program's time includes its start and
the opening of the model, the peer's does not. The ids are compared first. Prints a JSON line a round: seconds, and the ratios.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import torch
import transformers
from PIL import Image

from compare_images import photos
from measured import folder_arguments

NEW = 33


def main():
    arguments = folder_arguments(__doc__)
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    model = transformers.AutoModelForImageTextToText.from_pretrained(arguments.folder, dtype=torch.float32, attn_implementation="sdpa").eval()
    processor = transformers.AutoProcessor.from_pretrained(arguments.folder, backend="pil")
    text = f"a photo: {getattr(processor, 'boi_token', processor.image_token)} and the man"
    with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
        path = photos(Path(scratch))[0]

        def own(count):
            began = time.perf_counter()
            lines = subprocess.run(
                [arguments.qkv, "generate", arguments.folder, "--threads", str(threads), "--image", path, "--json",
                 "--max-new-tokens", str(count), "--min-new-tokens", str(count), text], capture_output=True, text=True, check=True).stdout
            return time.perf_counter() - began, json.loads(lines)["texts"][0]["ids"]

        def peer(count):
            began = time.perf_counter()
            given = processor(text=text, images=[Image.open(path).convert("RGB")], return_tensors="pt")
            ids = model.generate(**given, max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0)
            return time.perf_counter() - began, ids[0, given["input_ids"].shape[1]:].tolist()

        found, expected = own(8)[1], peer(8)[1]
        if found != expected:
            raise SystemExit(f"other ids: {found}, transformers {expected}")
        for _ in range(arguments.rounds):
            row = {}
            for name, run in (("qkv", own), ("transformers", peer)):
                row[name] = {count: round(run(count)[0], 2) for count in (1, NEW)}
            for count in (1, NEW):
                row[f"times {count}"] = round(row["transformers"][count] / row["qkv"][count], 2)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
