"""Training steps in PyTorch from a model folder and a file of batches, both written by `qkv train TASK`.

    python bench/torch_training.py TASK --model DIR --batches FILE --threads 2 [--dropout 0.1] [--compile] [--autocast]

Prints one JSON line per step with the loss and the time in seconds, including the creation of padded tensors; the last line has the
process's memory before the first step. Used by bench/compare_training.py.
"""

import argparse
import json
import resource
import time

import torch

from torch_tasks import TASKS


def learning_rate(arguments, step):
    return arguments.learning_rate * min(1.0, step / arguments.warmup_steps if arguments.warmup_steps else 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--model", required=True, help="a model folder written by qkv")
    parser.add_argument("--batches", required=True, help="the file written by qkv train --save-batches")
    parser.add_argument("--steps", type=int, help="(default: all batches)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--attention-dropout", type=float, default=0)
    parser.add_argument("--images", help="task image: the IDX file")
    parser.add_argument("--label-smoothing", type=float, default=0)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--warmup-steps", type=int, default=1000)
    parser.add_argument("--average-decay", type=float, default=0.999)
    parser.add_argument("--compile", action="store_true", help="torch.compile(dynamic=True)")
    parser.add_argument("--autocast", action="store_true", help="mixed precision: torch.autocast to bfloat16")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    model = TASKS[arguments.task](arguments.model, arguments)
    model.train()
    forward = torch.compile(model, dynamic=True) if arguments.compile else model
    parameters = list(model.parameters())
    average = [parameter.detach().clone() for parameter in parameters]
    optimizer = torch.optim.Adam(parameters, lr=1.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
    with open(arguments.batches, encoding="utf-8") as file:
        batches = [json.loads(line) for line in file]
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    for step, batch in enumerate(batches[:arguments.steps], start=1):
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.autocast):
            loss = forward(*model.tensors(batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(arguments, step)
        optimizer.step()
        optimizer.zero_grad()
        torch._foreach_lerp_(average, parameters, 1 - min(arguments.average_decay, (1 + step) / (10 + step)))
        print(json.dumps({"loss": float(loss.detach()), "seconds": time.perf_counter() - begin}), flush=True)
    print(json.dumps({"idle_mb": idle}))


if __name__ == "__main__":
    main()
