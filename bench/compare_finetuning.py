"""Accuracy after fine-tuning: `qkv train classify --from DIR` and transformers (with --lora, peft), with the same settings.

    python bench/compare_finetuning.py --from all-MiniLM-L6-v2 --train train.txt --valid dev.txt --seeds 2

Needs torch, transformers and, with --lora, peft from PyPI. FILE has a label, a space and a text per line. Both sides: AdamW without
decay of biases and norms, a linear schedule to 0 without warm-up, gradient norm at most 1, 32 texts per step (qkv: as many tokens as
32 texts have on average), dropout 0.1, a validation per epoch. Seeds decide the new classifier, the order of the texts and dropout, and
differ between the sides, so means over seeds are compared: of the last epoch and of the best.
"""

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from measured import row, table

TEXTS = 32


def read(path):
    lines = [line.split(" ", 1) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    return [int(label) for label, _ in lines], [text for _, text in lines]


def qkv_run(a, seed):
    with tempfile.TemporaryDirectory() as folder:
        command = [a.qkv, "train", "classify", "--train", a.train, "--valid", a.valid, "--from", a.start, "--out", folder + "/out",
                   "--learning-rate", a.learning_rate, "--max-epochs", a.epochs, "--seed", seed, "--threads", a.threads, "--quiet",
                   "--json", *(["--lora", a.lora, "--lora-alpha", a.lora_alpha] if a.lora else []), *a.qkv_options]
        run = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
        log = [json.loads(line) for line in (Path(folder) / "out/log.jsonl").read_text(encoding="utf-8").splitlines()]
        return [line["valid_accuracy"] for line in log if "valid_accuracy" in line], json.loads(run.stdout)["seconds"]


def torch_model(a):
    from transformers import AutoModelForSequenceClassification
    model = AutoModelForSequenceClassification.from_pretrained(a.start, num_labels=2)
    if a.lora:
        from peft import LoraConfig, TaskType, get_peft_model
        model = get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_CLS, r=a.lora, lora_alpha=a.lora_alpha, lora_dropout=0,
                                                 target_modules=["query", "value"], modules_to_save=["classifier", "pooler"]))
    return model


def torch_run(a, seed):
    import torch
    from transformers import AutoTokenizer
    torch.set_num_threads(a.threads)
    torch.manual_seed(seed)
    order = random.Random(seed)
    tokenizer, model = AutoTokenizer.from_pretrained(a.start), torch_model(a)
    labels, texts = read(a.train)
    valid_labels, valid_texts = read(a.valid)

    def batch(some):
        return tokenizer(some, padding=True, truncation=True, max_length=a.max_length, return_tensors="pt")

    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    groups = [{"params": [p for name, p in trained if p.dim() > 1], "weight_decay": 0.01},
              {"params": [p for name, p in trained if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=a.learning_rate, eps=1e-8)
    steps, step, accuracies, begin = a.epochs * -(-len(texts) // TEXTS), 0, [], time.perf_counter()
    for _ in range(a.epochs):
        model.train()
        items = list(range(len(texts)))
        order.shuffle(items)
        for first in range(0, len(items), TEXTS):
            chosen = items[first:first + TEXTS]
            for group in optimizer.param_groups:
                group["lr"] = a.learning_rate * (1 - step / steps)
            model(**batch([texts[i] for i in chosen]), labels=torch.tensor([labels[i] for i in chosen])).loss.backward()
            torch.nn.utils.clip_grad_norm_([p for _, p in trained], 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
        model.eval()
        with torch.inference_mode():
            found = [label for first in range(0, len(valid_texts), 64)
                     for label in model(**batch(valid_texts[first:first + 64])).logits.argmax(-1).tolist()]
        accuracies.append(sum(x == y for x, y in zip(found, valid_labels)) / len(valid_labels))
    return accuracies, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="start", required=True, help="folder of the encoder")
    parser.add_argument("--train", required=True)
    parser.add_argument("--valid", required=True)
    parser.add_argument("--qkv", default="build/release/bin/qkv", help="the program (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=5e-5, help="(default: %(default)s)")
    parser.add_argument("--lora", type=int, default=0, help="rank; 0: all weights (default: %(default)s)")
    parser.add_argument("--lora-alpha", type=float, default=16, help="(default: %(default)s)")
    parser.add_argument("--max-length", type=int, default=128, help="tokens, of transformers (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--qkv-options", nargs=argparse.REMAINDER, default=[], help="last: more options of qkv train classify")
    a = parser.parse_args()

    table("Fine-tuning a classifier", ["program", "seed", "accuracy by epoch", "seconds"])
    results = {"qkv": [], "PyTorch": []}
    for seed in range(1, a.seeds + 1):
        for name, run in (("qkv", qkv_run), ("PyTorch", torch_run)):
            accuracies, seconds = run(a, seed)
            results[name].append(accuracies)
            row(name, seed, " ".join(f"{100 * x:.1f}" for x in accuracies), f"{seconds:.0f}")
    for name, runs in results.items():
        last, best = (statistics.mean(pick(run) for run in runs) for pick in (lambda run: run[-1], max))
        print(f"\n{name}: {100 * last:.2f} % after the last epoch, {100 * best:.2f} % after the best, means of {a.seeds} seeds")


if __name__ == "__main__":
    main()
