"""`qkv serve` under load, against the command line on the same lines.

    python3 bench/compare_serving.py --qkv build/release/bin/qkv --translation MODEL --source test.en
    python3 bench/compare_serving.py --qkv build/release/bin/qkv --encoder all-MiniLM-L6-v2 --source test.en

Needs only Python. For each number of clients, each client sends one line at a time over one connection and waits for its answer:
requests/s, median and 95th percentile of the time of a request, and the rate's share of the library's own (the command with all
lines at once, minus its start-up for one line). Every answer is compared with the command's. The load generator runs on the same
machine, in --generators processes, and takes its share of the processors. --idle measures the memory of idle connections.
"""

import argparse
import http.client
import json
import multiprocessing
import resource
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Served:
    """A running `qkv serve`, ended by its process id."""

    def __init__(self, qkv, folder, options):
        self.port = free_port()
        began = time.perf_counter()
        self.process = subprocess.Popen([qkv, "serve", f"m={folder}", "--port", str(self.port), *options],
                                        stderr=subprocess.PIPE, text=True)
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/ready")
                if connection.getresponse().status == 200:
                    break
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(self.process.stderr.read())
                time.sleep(0.002)
        self.start_ms = 1000 * (time.perf_counter() - began)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def resident_mb(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise KeyError("VmRSS")

    def processor_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100


def as_floats(numbers):
    """Both sides write digits that read back as the same float, but not the same digits."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


class Work:
    """What is asked of a model: the request of a line, the text or vector of an answer, and the command's answers."""

    def __init__(self, args):
        self.translates = args.translation is not None
        self.folder = args.translation or args.encoder
        self.path = "/v1/translate" if self.translates else "/v1/embeddings"
        self.beam = args.beam

    def body(self, line):
        asked = {"text": line, "beam": self.beam} if self.translates else {"input": line}
        return json.dumps({"model": "m", **asked})

    def answer(self, body):
        reply = json.loads(body)
        return reply["translations"][0]["translation"] if self.translates else as_floats(reply["data"][0]["embedding"])

    def command(self, qkv, threads):
        what = ["translate", self.folder, "--beam", str(self.beam)] if self.translates else ["embed", self.folder]
        return [qkv, *what, "--json", "--threads", str(threads)]

    def command_answers(self, output):
        if self.translates:
            return [json.loads(line)["translation"] for line in output.splitlines()]
        return [as_floats(json.loads(line)["vector"]) for line in output.splitlines()]


def client(port, work, lines, first, step, count, times, answers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    for k in range(first, count, step):
        began = time.perf_counter()
        connection.request("POST", work.path, work.body(lines[k % len(lines)]), {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read()
        times.append(time.perf_counter() - began)
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {body[:200]}")
        answers.append((k, body))


def generator(port, work, lines, mine, clients, count, results):
    """The clients of one process."""
    times, answers = [], []
    threads = [threading.Thread(target=client, args=(port, work, lines, c, clients, count, times, answers)) for c in mine]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((times, answers))


def load(served, work, lines, clients, count, generators):
    results = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=generator, args=(served.port, work, lines, range(g, clients, generators),
                                                                 clients, count, results))
                 for g in range(min(generators, clients))]
    began, before = time.perf_counter(), served.processor_seconds()
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    seconds = time.perf_counter() - began
    for process in processes:
        process.join()
    times = [one for some, _ in found for one in some]
    answers = [one for _, some in found for one in some]
    if len(answers) != count:
        sys.exit(f"expected {count} answers, found {len(answers)}")
    return seconds, times, answers, served.processor_seconds() - before


def timed(command, text):
    began = time.perf_counter()
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", required=True)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--translation")
    which.add_argument("--encoder")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--generators", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=int, default=0, help="idle connections to measure the memory of")
    parser.add_argument("--option", action="append", default=[], help="further option of qkv serve, as --option=--queue=9")
    args = parser.parse_args()

    work = Work(args)
    lines = args.source.read_text().splitlines()[:args.lines]
    command = work.command(args.qkv, args.threads)
    print("| clients | requests/s | median, ms | 95 %, ms | 95 % / median | share of the library's rate | server's processor, ms a request |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with Served(args.qkv, work.folder, ["--threads", str(args.threads), "--queue", "4096", *args.option]) as served:
        rows = {clients: [] for clients in args.clients}
        rates = []
        for _ in range(args.rounds):
            one, _ = timed(command, lines[0] + "\n")
            all_of_them, output = timed(command, "\n".join(lines) + "\n")
            expected = work.command_answers(output)
            rates.append(len(lines) / (all_of_them - one))
            for clients in args.clients:
                count = min(len(lines), max(60, 40 * clients))
                seconds, times, answers, processor = load(served, work, lines, clients, count, args.generators)
                wrong = sum(work.answer(body) != expected[k % len(lines)] for k, body in answers)
                if wrong:
                    sys.exit(f"{clients} clients: {wrong} of {count} answers differ from the command's")
                rows[clients].append((count / seconds, statistics.median(times), percentile(times, 0.95), processor / count))
        rate = statistics.median(rates)
        for clients, found in rows.items():
            per_second, median, late, processor = (statistics.median(column) for column in zip(*found))
            print(f"| {clients} | {per_second:.1f} | {1000 * median:.1f} | {1000 * late:.1f} | {late / median:.2f} | "
                  f"{per_second / rate:.2f} | {1000 * processor:.2f} |")
        print(f"\nThe library alone: {rate:.1f} lines/s. Start to ready: {served.start_ms:.0f} ms. "
              f"Memory after the load: {served.resident_mb():.0f} MB. All answers equal the command's.")
        if args.idle:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, args.idle + 500), hard))
            before = served.resident_mb()
            idle = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(args.idle)]
            time.sleep(1)
            print(f"{len(idle)} idle connections: {served.resident_mb() - before:.1f} MB.")


if __name__ == "__main__":
    main()
