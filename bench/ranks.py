"""Training on several ranks, beside one process and beside PyTorch's DistributedDataParallel.

    python bench/ranks.py local --data multi30k --preset base     # 2 ranks x 1 thread and 1 rank x 2 threads; optimizer memory of 4
    python bench/ranks.py network --data multi30k --preset base   # two hosts: step times by rate of the link, and their prediction
    python bench/ranks.py ddp --data multi30k --preset base       # two hosts: beside PyTorch with gloo
    python bench/ranks.py machines --preset base --tokens-per-second 900  # the prediction for 2 to 256 machines

--data is a folder with train.en and train.de. The hosts are network namespaces of this machine, joined by a pair of virtual Ethernet
devices whose rate `tc` limits, with a processor each; this needs root, Open MPI and iproute2. The runs of a comparison alternate in
rounds. The time of a step is the median over the steps of all rounds, without the first two of a run. With --nice -5 the runs precede
other processes of the machine. Pairs are sorted by length, 8,192 together, for PyTorch's sake.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import row, spread, table

HERE = Path(__file__).resolve().parent
SKIPPED = 2  # steps at the beginning of a run
NAMES = ("qkv0", "qkv1")  # of the hosts, and of their network namespaces
ADDRESSES = ("10.77.0.1", "10.77.0.2")


# Two hosts.

class Hosts:
    """Two network namespaces with names of hosts, joined by a link of `rate` ("1gbit"; None: unlimited)."""

    def __init__(self, rate):
        self.rate, self.folder = rate, tempfile.TemporaryDirectory()

    def __enter__(self):
        self.remove()
        for name in NAMES:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "veth0", "netns", NAMES[0], "type", "veth", "peer", "name", "veth1", "netns", NAMES[1])
        for i, name in enumerate(NAMES):
            run("ip", "-n", name, "addr", "add", f"{ADDRESSES[i]}/24", "dev", f"veth{i}")
            for device in ("lo", f"veth{i}"):
                run("ip", "-n", name, "link", "set", device, "up")
            if self.rate:
                run("tc", "-n", name, "qdisc", "add", "dev", f"veth{i}", "root", "tbf", "rate", self.rate, "burst", "256kb", "latency",
                    "50ms")
        folder = Path(self.folder.name)
        (folder / "hosts").write_text("".join(f"{address} slots=1\n" for address in ADDRESSES))
        # In place of ssh: mpirun calls it with a host and a command.
        self.agent = folder / "agent"
        self.agent.write_text("#!/bin/sh\nshift\nexec " + " ".join(self.on(1)) + ' sh -c "$*"\n')
        self.agent.chmod(0o755)
        return self

    def __exit__(self, *_):
        self.remove()

    @staticmethod
    def remove():
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)

    @staticmethod
    def on(host):
        """The beginning of a command line that runs on a host, on its processor."""
        return ["nsenter", f"--net=/run/netns/{NAMES[host]}", "unshare", "--uts", sys.executable, str(HERE / "ranks.py"), "host", str(host)]

    def mpirun(self):
        return self.on(0) + ["mpirun", "--hostfile", f"{self.folder.name}/hosts", "-n", "2", "--bind-to", "none", "--mca",
                             "plm_rsh_agent", str(self.agent), "--mca", "btl", "tcp,self", "--mca", "pml", "ob1",
                             "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include", "10.77.0.0/24"]

    def rate_of_tcp(self, megabytes=100):
        """Bytes a second of one TCP connection."""
        receiver = subprocess.Popen([*self.on(1), sys.executable, __file__, "receive"], stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        subprocess.run([*self.on(0), sys.executable, __file__, "send", str(megabytes)], check=True)
        return float(receiver.communicate()[0])


def become_host(arguments):
    """`ranks.py host N COMMAND...`: sets the name of the host and its processor, and becomes the command."""
    host = int(arguments[0])
    socket.sethostname(NAMES[host])
    os.sched_setaffinity(0, {host})
    os.execvp(arguments[1], arguments[1:])


def receive():
    with socket.create_server(("", 7000)) as server:
        connection = server.accept()[0]
        count, began = 0, time.perf_counter()
        while block := connection.recv(1 << 20):
            count += len(block)
        print(count / (time.perf_counter() - began))


def send(megabytes):
    with socket.create_connection((ADDRESSES[1], 7000)) as connection:
        for _ in range(int(megabytes)):
            connection.sendall(bytes(1_000_000))


def run(*command):
    subprocess.run(command, check=True)


# Runs.

def train(a, folder, launch, accumulate, threads, steps, *more, rate=1e-4):
    """The lines of speed.jsonl of `qkv train`, with the seconds of each step; and the JSON that it prints."""
    command = [*launch, a.qkv, "train", "translation", "--src", f"{a.data}/train.en", "--tgt", f"{a.data}/train.de", "--out", folder,
               "--overwrite", "--preset", a.preset, "--vocab-size", a.vocab_size, "--batch-tokens", a.batch_tokens, "--accumulate",
               accumulate, "--threads", threads, "--max-steps", steps, "--checkpoint-minutes", 0, "--schedule", "constant",
               "--warmup-steps", 0, "--learning-rate", rate, "--set", "train.log_every=1", "--set", "sort_window=8192", "--quiet", "--json", *more]
    printed = finish(a, start(a, command))
    return steps_of((Path(folder) / "speed.jsonl").read_text()), json.loads(printed)


def start(a, command):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.Popen(["nice", "-n", str(a.nice), *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment)


def finish(a, process):
    out, errors = process.communicate(timeout=a.timeout)
    if process.returncode != 0:
        sys.exit(f"{' '.join(process.args)}: exit status {process.returncode}\n{errors[-2000:]}")
    return out


def steps_of(lines):
    """JSON objects, a line each, with the "seconds" since the start, which become those of the step."""
    steps = [json.loads(line) for line in lines.splitlines()]
    for before, after in zip(steps[-2::-1], steps[::-1]):
        after["seconds"] -= before["seconds"]
    return steps[SKIPPED:]


def median(steps, field="seconds"):
    return statistics.median(step[field] for step in steps)


def in_rounds(a, runs):
    """Calls each of the named runs, which return steps, once a round. Returns for each the steps of each round."""
    rounds = {name: [] for name in runs}
    for _ in range(a.rounds):
        for name, one in runs.items():
            rounds[name].append(one())
    return rounds


def compared(rounds, slow, fast):
    """Cells: seconds of a step of both, and how many times as many steps a second the second makes, by round."""
    ratios = [median(one) / median(other) for one, other in zip(rounds[slow], rounds[fast])]
    return [f"{median(sum(rounds[name], [])):.3f}" for name in (slow, fast)] + [spread(ratios)]


# The comparisons.

def compare_local(a):
    """2 ranks with 1 thread each and 1 rank with 2 threads: the same steps. Then the memory of the optimizer on 4 ranks."""
    ranks = ["mpirun", "--bind-to", "none", "--oversubscribe", "-n"]
    with tempfile.TemporaryDirectory() as folder:
        rounds = in_rounds(a, {"one": lambda: train(a, folder + "/one", [], 2, 2, a.steps)[0],
                               "two": lambda: train(a, folder + "/two", [*ranks, 2], 2, 1, a.steps)[0]})
        table(f"2 ranks x 1 thread beside 1 rank x 2 threads, {a.setting}",
              ["1 rank, s a step", "2 ranks, s a step", "speed of 2 ranks / 1 rank, by round"], [compared(rounds, "one", "two")])

        def optimizer_megabytes(name, launch):
            return train(a, f"{folder}/{name}", launch, 4, 1, SKIPPED + 1, "--profile")[1]["profile"]["peak_memory"]["optimizer"] / 1e6

        whole, share = optimizer_megabytes("whole", []), optimizer_megabytes("share", [*ranks, 4])
        table(f"Memory of the optimizer, --preset {a.preset}", ["1 rank, MB", "the root of 4 ranks, MB", "ratio"],
              [(f"{whole:.1f}", f"{share:.1f}", f"{share / whole:.3f}")])


def compare_rates(a):
    """Steps of two hosts by the rate of their link, beside the prediction from those without a limit."""
    table(f"Two hosts with a processor each, {a.setting}",
          ["rate", "TCP, Mbit/s", "MB sent a step", "s a step", "predicted", "measured / predicted", "hidden of the gradients' time", "of the weights'"])
    compute = None
    for rate in [None, *a.rates]:
        with Hosts(rate) as hosts, tempfile.TemporaryDirectory() as folder:
            tcp = hosts.rate_of_tcp()
            steps = sum(in_rounds(a, {"run": lambda: train(a, folder + "/run", hosts.mpirun(), 2, 1, a.steps)[0]})["run"], [])
            sizes = sizes_of(Path(folder) / "run/model.safetensors")
        seconds, sent, gradients, weights = (median(steps, field) for field in ("seconds", "bytes_sent", "gradients_seconds", "weights_seconds"))
        compute = compute or seconds
        predicted = step_seconds(compute, sum(sizes), max(sizes), tcp, 2) if rate else seconds
        row(rate or "unlimited", f"{tcp * 8e-6:,.0f}", f"{sent / 1e6:.0f}", f"{seconds:.3f}", f"{predicted:.3f}", f"{seconds / predicted:.2f}",
            f"{median(steps, 'gradients_hidden_seconds') / gradients:.2f}", f"{median(steps, 'weights_hidden_seconds') / weights:.2f}")


def sizes_of(file):
    """Bytes of the tensors of a safetensors file."""
    with open(file, "rb") as model:
        header = json.loads(model.read(int.from_bytes(model.read(8), "little")))
    return [tensor["data_offsets"][1] - tensor["data_offsets"][0] for name, tensor in header.items() if name != "__metadata__"]


def step_seconds(compute, parameters, largest, rate, ranks):
    """The model of a step, for bytes of all parameters and of the largest, which is the embedding. Its owner receives most: of each other
    rank the gradients of its share, and then sends as much to each. The embedding's gradient is complete at the very end of the backward
    pass, and its weights are read at the beginning of the forward pass: nothing hides them. The other gradients are hidden behind half of
    the computation, the other weights behind three tenths, which is nearly the forward pass."""
    embedding = (ranks - 1) * largest / rate
    others = (ranks - 1) * max(0, parameters / ranks - largest) / rate
    return compute + 2 * embedding + max(0, others - 0.5 * compute) + max(0, others - 0.3 * compute)


def compare_ddp(a):
    """`qkv train` and PyTorch on two hosts: the same model, batches and optimizer."""
    with Hosts(a.rates[0]) as hosts, tempfile.TemporaryDirectory() as folder:
        model, batches = folder + "/start", folder + "/batches.jsonl"
        train(a, model, [], 2, 2, a.steps, "--save-batches", batches, rate=1e-38)

        def theirs():
            ranks = [start(a, [*hosts.on(rank), sys.executable, HERE / "ranks.py", "torch-rank", rank, model, batches])
                     for rank in range(2)]
            return steps_of([finish(a, rank) for rank in ranks][0])

        rounds = in_rounds(a, {"DDP": theirs, "qkv": lambda: train(a, folder + "/run", hosts.mpirun(), 2, 1, a.steps)[0]})
        table(f"Two hosts with a processor each, joined by {a.rates[0]}, {a.setting}",
              ["PyTorch DDP with gloo, s a step", "qkv, s a step", "ratio of steps/s, by round"], [compared(rounds, "DDP", "qkv")])


def torch_rank(rank, folder, batches):
    """One rank of PyTorch: each takes one of the two batches of a step."""
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel
    from torch_tasks import TASKS

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = f"veth{rank}"
    distributed.init_process_group("gloo", f"tcp://{ADDRESSES[0]}:7001", rank=rank, world_size=2)
    model = TASKS["translation"](folder, argparse.Namespace(dropout=0.1, label_smoothing=0.1))
    model.train()
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
    parameters = list(model.parameters())
    average = [parameter.detach().clone() for parameter in parameters]
    optimizer = torch.optim.Adam(parameters, lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    with open(batches, encoding="utf-8") as file:
        mine = [json.loads(line) for i, line in enumerate(file) if i % 2 == rank]
    began = time.perf_counter()
    for batch in mine:
        parallel(*model.tensors(batch)).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch._foreach_lerp_(average, parameters, 0.001)
        print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)
    distributed.destroy_process_group()


def machines(a):
    """The prediction for machines of 16 cores: seconds of a step of a fixed number of tokens, and the speed relative to one machine."""
    tokens_a_second = a.tokens_per_second * 16
    table(f"Predicted, `{a.preset}` with {a.parameters / 1e6:.0f} million parameters, machines of 16 cores with {tokens_a_second:,.0f} "
          f"tokens/s, {a.rates[0]} ({a.tcp / 125_000:,.0f} Mbit/s)",
          ["machines"] + [f"{tokens:,} tokens a step: s" if kind == 0 else "speed of one machine" for tokens in a.step_tokens for kind in (0, 1)])
    for count in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        cells = []
        for tokens in a.step_tokens:
            compute = tokens / tokens_a_second / count
            seconds = step_seconds(compute, 4 * a.parameters, 4 * a.embedding, a.tcp, count)
            cells += [f"{seconds:.2f}", f"{tokens / tokens_a_second / seconds:.1f}"]
        row(count, *cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", choices=["local", "network", "ddp", "machines"])
    parser.add_argument("--qkv", default="build/release/bin/qkv")
    parser.add_argument("--data", type=Path, help="a folder with train.en and train.de")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", nargs="+", default=["1gbit"], help="of the link")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=600, help="seconds of a run")
    parser.add_argument("--tokens-per-second", type=float, help="machines: of one core")
    parser.add_argument("--parameters", type=float, help="machines: of the model")
    parser.add_argument("--embedding", type=float, default=8000 * 512, help="machines: parameters of the largest one")
    parser.add_argument("--tcp", type=float, default=957e6 / 8, help="machines: bytes a second of the link")
    parser.add_argument("--step-tokens", type=int, nargs="+", default=[50_000, 400_000], help="machines: of a step of all")
    a = parser.parse_args()
    a.setting = f"`--preset {a.preset} --batch-tokens {a.batch_tokens} --accumulate 2`"
    {"local": compare_local, "network": compare_rates, "ddp": compare_ddp, "machines": machines}[a.comparison](a)


if __name__ == "__main__":
    internal = {"host": lambda rest: become_host(rest), "receive": lambda rest: receive(), "send": lambda rest: send(*rest),
                "torch-rank": lambda rest: torch_rank(int(rest[0]), *rest[1:])}
    if len(sys.argv) > 1 and sys.argv[1] in internal:
        internal[sys.argv[1]](sys.argv[2:])
    else:
        main()
