"""Trains a small model and a LoRA adapter for every task, and opens both with PyPI's packages.

    python tests/interop/open_trained.py --qkv build/release/bin/qkv --data ../shared/data

For each task: a folder from random weights (or, where a task needs one, from a folder), then an adapter of that folder.
transformers (peft, sentence-transformers) opens them, and its log-probabilities, probabilities or vectors are compared with
those that qkv prints. Prints a table; status 1 if a probability or a value of a vector differs by more than 1e-5, or a
log-probability by more than 1e-4. Needs torch, torchvision, transformers, peft, sentence-transformers, sentencepiece, pillow.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image
from questions import questions

sys.path.insert(0, str(Path(__file__).parent.parent / "golden"))
import text_results  # noqa: E402

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
SMALL = ["--max-steps", "30", "--warmup-steps", "5", "--quiet", "--seed", "3"]
TINY = ["--preset", "tiny", "--set", "model.d_model=64", "--set", "model.d_ff=128", "--set", "model.heads=4"]
LIMITS = {"probability": 1e-5, "log-probability": 1e-4, "value": 1e-5}


class Task:
    """data(): writes files, returns the options of `qkv train`. differences(folder, adapter): {kind: largest difference}."""

    model = TINY
    adapter = ["--lora", "4", "--learning-rate", "0.01"]

    def __init__(self, arguments, scratch):
        self.qkv, self.shared, self.scratch = arguments.qkv, arguments.data, scratch

    def lines(self, file, count):
        return (self.shared / file).read_text(encoding="utf-8").splitlines()[:count]

    def write(self, name, lines):
        path = self.scratch / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(path)

    def run(self, *arguments, text=None):
        done = subprocess.run([str(one) for one in (self.qkv, *arguments)], input=text, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def rows(self, command, folder, adapter, lines, *options):
        more = ["--adapter", adapter] if adapter else []
        return [json.loads(line) for line in self.run(command, folder, "--json", *options, *more, text="\n".join(lines) + "\n").splitlines()]

    def opened(self, kind, folder, adapter):
        if not adapter:
            return getattr(transformers, kind).from_pretrained(folder).eval()
        import peft
        return peft.PeftModel.from_pretrained(getattr(transformers, kind).from_pretrained(folder), adapter).eval()


class LanguageModel(Task):
    def data(self):
        text = self.lines("classic_books/train.txt", 400)
        return ["--train", self.write("lm.txt", text), "--valid", self.write("lm-valid.txt", text[:50]), "--vocab-size", "400",
                "--context", "64", "--batch-tokens", "512"]

    def differences(self, folder, adapter):
        model, tokenizer = self.opened("AutoModelForCausalLM", folder, adapter), transformers.AutoTokenizer.from_pretrained(folder)
        worst, lines = 0, [line[:80] for line in self.lines("classic_books/valid.txt", 60) if len(line) > 20][:20]
        for line, row in zip(lines, self.rows("score", folder, adapter, lines)):
            ids = torch.tensor([tokenizer(line)["input_ids"]])
            found = row["token_log_probabilities"]
            with torch.no_grad():
                logs = torch.log_softmax(model(ids).logits[0].double(), -1)
            expected = logs[:-1].gather(1, ids[0, 1:, None])[:, 0].numpy()
            worst = max(worst, np.abs(expected[-len(found):] - np.array(found)).max())
        return {"log-probability": worst}


class MaskedLanguageModel(Task):
    adapter = None

    def data(self):
        return ["--train", self.write("bert.txt", self.lines("classic_books/train.txt", 3000)), "--vocab-size", "600",
                "--max-length", "64", "--batch-tokens", "512"]

    def differences(self, folder, adapter):
        model, tokenizer = self.opened("BertForPreTraining", folder, adapter), transformers.AutoTokenizer.from_pretrained(folder)
        lines, worst = ["he opened the [MASK] .", "the [MASK] was in the old [MASK] by the sea .", "she [MASK] him ."], 0
        for line, row in zip(lines, self.rows("fill-mask", folder, adapter, lines)):
            ids = torch.tensor([tokenizer(line)["input_ids"]])
            with torch.no_grad():
                shares = torch.softmax(model(ids).prediction_logits[0].double(), -1)
            for place, mask in zip((ids[0] == tokenizer.mask_token_id).nonzero()[:, 0], row["masks"]):
                for one in mask:
                    worst = max(worst, abs(shares[place, one["id"]].item() - one["probability"]))
        return {"probability": worst}


class Classification(Task):
    def data(self):
        lines = [line.replace(" ", "\t", 1) for line in self.lines("sst2/stsa.binary.train", 400)]
        return ["--train", self.write("classify.tsv", lines), "--vocab-size", "600", "--batch-tokens", "512"]

    def differences(self, folder, adapter):
        model, tokenizer = self.opened("AutoModelForSequenceClassification", folder, adapter), transformers.AutoTokenizer.from_pretrained(folder)
        worst, lines = 0, [line[2:] for line in self.lines("sst2/stsa.binary.dev", 20)]
        for line, row in zip(lines, self.rows("classify", folder, adapter, lines)):
            with torch.no_grad():
                shares = torch.softmax(model(**tokenizer(line, return_tensors="pt")).logits[0].double(), -1)
            for one in row["labels"]:
                worst = max(worst, abs(shares[model.config.label2id[one["label"]]].item() - one["probability"]))
        return {"probability": worst}


class Tagging(Task):
    def data(self):
        return ["--train", self.write("tag.conll", self.lines("ud_ewt/train.conll", 4000)), "--vocab-size", "600", "--batch-tokens", "512"]

    def differences(self, folder, adapter):
        model = self.opened("AutoModelForTokenClassification", folder, adapter)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        worst, lines = 0, ["The dog sleeps in an old house .", "Where are they ?", "I saw her yesterday in Berlin ."]
        for line, row in zip(lines, self.rows("tag", folder, adapter, lines)):
            encoded = tokenizer(line, return_tensors="pt", return_offsets_mapping=True)
            offsets = encoded.pop("offset_mapping")[0].tolist()
            with torch.no_grad():
                shares = torch.softmax(model(**encoded).logits[0].double(), -1)
            for one in row["tokens"]:
                place = offsets.index([one["begin"], one["end"]])
                worst = max(worst, abs(shares[place, model.config.label2id[one["label"]]].item() - one["probability"]))
        return {"probability": worst}


class Answering(Task):
    def data(self):
        return ["--train", self.write("answer.jsonl", [json.dumps(one) for one in questions(60, seed=1)]), "--vocab-size", "200",
                "--batch-tokens", "512"]

    def differences(self, folder, adapter):
        model = self.opened("AutoModelForQuestionAnswering", folder, adapter)
        if adapter:  # PeftModelForQuestionAnswering (0.21.2) drops the token types
            model = model.base_model
        tokenizer, asked, worst = transformers.AutoTokenizer.from_pretrained(folder), questions(5, seed=2), 0
        question, contexts = "Where does Ada live?", [one["context"] for one in asked]
        options = ["--question", question, "--unanswerable", "--window", "32", "--shared", "8", "--top", "3"]
        for context, row in zip(contexts, self.rows("answer", folder, adapter, contexts, *options)):
            expected = text_results.answers(model, tokenizer, question, context, 32, 8, 3, none=True)
            assert [one["text"] for one in row["answers"]] == [one["text"] for one in expected], (row, expected)
            for found, one in zip(row["answers"], expected):
                worst = max(worst, abs(found["probability"] - one["probability"]))
        return {"probability": worst}


class Embedding(Task):
    model = []

    def data(self):
        return ["--train", self.write("embed.tsv", self.lines("sts/train.tsv", 300)), "--from", str(self.scratch / "pretrain-bert")]

    def differences(self, folder, adapter):
        from sentence_transformers import SentenceTransformer
        lines = self.lines("multi30k/test_2016_flickr.en", 20)
        model = SentenceTransformer(str(folder), device="cpu")
        if adapter:
            import peft
            model[0].auto_model = peft.PeftModel.from_pretrained(model[0].auto_model, adapter).eval()
        expected = model.encode(lines, show_progress_bar=False)
        found = np.array([row["vector"] for row in self.rows("embed", folder, adapter, lines)])
        return {"value": np.abs(found - expected).max()}


class Images(Task):
    model = ["--preset", "mini", "--set", "model.layers=2"]

    def images(self):
        with gzip.open(self.shared / "fashion_mnist/t10k-images-idx3-ubyte.gz") as file:
            data = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 28, 28)[:20]
        paths = []
        for i, pixels in enumerate(data):
            paths.append(str(self.scratch / f"image{i}.png"))
            Image.fromarray(pixels).save(paths[-1])
        return paths

    def data(self):
        files = self.shared / "fashion_mnist"
        return ["--train", files / "train-images-idx3-ubyte.gz", "--labels", files / "train-labels-idx1-ubyte.gz", "--hold-out", "200",
                "--batch-images", "64"]

    def differences(self, folder, adapter):
        model = self.opened("ViTForImageClassification", folder, adapter)
        processor, paths, worst = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False), self.images(), 0
        for path, row in zip(paths, self.rows("classify", folder, adapter, paths)):
            # transformers takes grey images with their channel.
            pixels = np.array(Image.open(path).convert("L"))[:, :, None]
            with torch.no_grad():
                shares = torch.softmax(model(processor(pixels, return_tensors="pt", input_data_format="channels_last")["pixel_values"])
                                       .logits[0].double(), -1)
            for one in row["labels"]:
                worst = max(worst, abs(shares[int(model.config.label2id[one["label"]])].item() - one["probability"]))
        return {"probability": worst}


class Translation(Task):
    def data(self):
        write = lambda name, count: self.write(name, self.lines("multi30k/" + name, count))
        return ["--src", write("train.en", 400), "--tgt", write("train.de", 400), "--valid-src", write("val.en", 40),
                "--valid-tgt", write("val.de", 40), "--vocab-size", "600", "--batch-tokens", "512"]

    def differences(self, folder, adapter):
        model = self.opened("MarianMTModel", folder, adapter)
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        sources, targets = self.lines("multi30k/val.en", 20), self.lines("multi30k/val.de", 20)
        worst, pairs = 0, [f"{a}\t{b}" for a, b in zip(sources, targets)]
        for source, target, row in zip(sources, targets, self.rows("score", folder, adapter, pairs)):
            batch = tokenizer(source, text_target=target, return_tensors="pt")
            with torch.no_grad():
                logs = torch.log_softmax(model(**batch).logits[0].double(), -1)
            expected = logs.gather(1, batch["labels"][0][:, None])[:, 0].numpy()
            worst = max(worst, np.abs(expected - np.array(row["token_log_probabilities"])).max())
        return {"log-probability": worst}


TASKS = {"lm": LanguageModel, "pretrain-bert": MaskedLanguageModel, "classify": Classification, "tag": Tagging, "answer": Answering, "embed": Embedding,
         "image": Images, "translation": Translation}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    arguments = parser.parse_args()
    arguments.qkv = arguments.qkv.absolute()
    good = True
    print("| task | | compared | largest difference |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.tasks:
            task = TASKS[name](arguments, Path(scratch))
            data = task.data()
            folder = Path(scratch) / name
            task.run("train", name, *data, *task.model, *SMALL, "--out", folder)
            made = [("folder", None)]
            if task.adapter:
                start = [one for i, one in enumerate(data) if one not in ("--vocab-size", "--from", "--context")
                         and (i == 0 or data[i - 1] not in ("--vocab-size", "--from", "--context"))]
                adapter = Path(scratch) / (name + "-adapter")
                task.run("train", name, *start, "--from", folder, *task.adapter, *SMALL, "--out", adapter)
                made.append(("adapter", str(adapter)))
            for what, adapter in made:
                for kind, worst in task.differences(folder, adapter).items():
                    fits = worst <= LIMITS[kind]
                    good &= bool(fits)
                    print(f"| {name} | {what} | {kind} | {worst:.1e}{'' if fits else ' NO'} |", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
