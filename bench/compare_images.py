"""`qkv embed` of images and of texts beside transformers, for a folder of CLIP or SigLIP.

    python bench/compare_images.py --qkv build/release/bin/qkv FOLDER

64 JPEG files of 640 x 480 pixels, and 256 captions of 4 to 24 words. The peer reads files with Pillow and its image processor, and
has batches of 1 and 16 images and of 1 and 32 texts; it pads texts. The program's time includes its start and its printing, the
peer's does not. Vectors are compared first, to 1e-4 of the largest number. Prints a JSON line a round: seconds, and the ratios.
"""

import json
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image

from measured import folder_arguments

WORDS = "a photo of the small red house by river with two dogs and man who sleeps in old green car near tall tree".split()


def photos(folder):
    draw = np.random.default_rng(0)
    paths = []
    for i in range(64):
        small = Image.fromarray(draw.integers(0, 256, (12, 16, 3)).astype(np.uint8))
        paths.append(str(folder / f"{i}.jpg"))
        small.resize((640, 480), Image.Resampling.BICUBIC).save(paths[-1], quality=90)
    return paths


def captions():
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 24))) for _ in range(256)]


class Peer:
    def __init__(self, folder):
        self.model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
        fixed = self.model.config.model_type == "siglip"  # which is trained with pad tokens
        self.padding = {"padding": "max_length", "max_length": 64} if fixed else {"padding": True}

    def images(self, paths, batch):
        found = []
        for i in range(0, len(paths), batch):
            pixels = self.processor([Image.open(path).convert("RGB") for path in paths[i:i + batch]], return_tensors="pt")
            found.append(self.model.get_image_features(**pixels).pooler_output)
        return torch.cat(found).numpy()

    def texts(self, texts, batch):
        found = []
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for i in range(0, len(texts), batch):
            chosen = [texts[k] for k in order[i:i + batch]]
            ids = self.tokenizer(chosen, truncation=True, return_tensors="pt", **self.padding)
            found.append(self.model.get_text_features(**ids).pooler_output)
        return torch.cat(found)[np.argsort(order)].numpy()


def main():
    arguments = folder_arguments(__doc__)
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    peer = Peer(arguments.folder)
    with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
        paths, texts = photos(Path(scratch)), captions()
        for name, inputs, options, run, batches in (("images", paths, ["--images"], peer.images, (1, 16)),
                                                    ("texts", texts, [], peer.texts, (1, 32))):
            command = [arguments.qkv, "embed", arguments.folder, "--threads", str(threads), *options]
            lines = "\n".join(inputs) + "\n"
            found = subprocess.run(command, input=lines, text=True, capture_output=True, check=True).stdout.splitlines()
            own = np.array([line.split("\t")[-1].split() for line in found], dtype=np.float32)
            expected = run(inputs, batches[-1])
            difference = float(np.abs(own - expected).max() / np.abs(expected).max())
            assert difference < 1e-4, difference
            for _ in range(arguments.rounds):
                seconds = {}
                for batch in batches:
                    begin = time.perf_counter()
                    run(inputs, batch)
                    seconds[batch] = time.perf_counter() - begin
                begin = time.perf_counter()
                subprocess.run(command, input=lines, text=True, stdout=subprocess.DEVNULL, check=True)
                took = time.perf_counter() - begin
                print(json.dumps({"of": name, "qkv": round(took, 2), "per second": round(len(inputs) / took, 1),
                                  **{f"batches of {batch}": round(one / took, 2) for batch, one in seconds.items()},
                                  "difference": f"{difference:.1e}"}), flush=True)


if __name__ == "__main__":
    main()
