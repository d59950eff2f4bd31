"""`qkv serve` under a mixed load that includes clients which misbehave.

    python3 tests/interop/serve_soak.py build/release/bin/qkv --minutes 30
    python3 tests/interop/serve_soak.py build/release/bin/qkv --requests 10000

Needs only Python. Starts a server with the small folders of the tests. Some clients send translations, labels, tags, scores,
embeddings, completions, chats and attention weights, one after another; every answer must be 200 and equal the command line's
(completions, chats and attention: the server's own answer when it was alone). Meanwhile others leave in the middle of streams, send
a byte at a time, do not read, send mutated requests, and open the models again. At the end every good request has one answer, the
queues are empty, and memory is that after the first tenth of the run (at most 10 % and 8 MB more).
"""

import argparse
import http.client
import json
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import running_server
from serve_clients import chat_folder

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = {"marian": ROOT / "tests/pipelines/golden/marian"} | {
    name: ROOT / "tests/models/golden" / name for name in ("llama", "bert_texts", "bert_tokens", "bert_spans")}
WORDS = "one two three four five six seven eight nine ten twenty thirty forty fifty hundred and a red dog small house".split()


def post(connection, path, body):
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read()


def connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=300)


def lines_of(qkv, command, folder, lines, *options):
    done = subprocess.run([qkv, command, str(FOLDERS[folder]), "--json", *options], input="\n".join(lines) + "\n",
                          capture_output=True, text=True, check=True)
    return [{key: value for key, value in json.loads(line).items() if key != "line"} for line in done.stdout.splitlines()]


def as_floats(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def without_identity(answer):
    """A completion without the fields that name this answer, and without what the prefix cache had of its prompt."""
    answer.get("usage", {}).pop("prompt_tokens_details", None)
    return {key: value for key, value in answer.items() if key not in ("id", "created")}


def texts(count):
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(count)]


def requests_with_answers(qkv, port):
    """(path, body, expected, what of an answer is compared)"""
    lines = texts(40)
    work = []

    def add(path, command, folder, key, options=(), fields=None):
        for text, found in zip(lines, lines_of(qkv, command, folder, lines, *options)):
            work.append((path, {"model": folder, "text": text, **(fields or {})}, {"model": folder, key: [found]}, lambda answer: answer))

    add("/v1/translate", "translate", "marian", "translations", ["--scores"], {"scores": True})
    add("/v1/translate", "translate", "marian", "translations", ["--beam", "1"], {"beam": 1})
    add("/v1/classify", "classify", "bert_texts", "results")
    add("/v1/tag", "tag", "bert_tokens", "results")
    add("/v1/answer", "answer", "bert_spans", "results", ["--question", "the dog", "--window", "14"], {"question": "the dog", "window": 14})
    add("/v1/score", "score", "llama", "results")
    for text, found in zip(lines, lines_of(qkv, "embed", "bert_texts", lines)):
        work.append(("/v1/embeddings", {"model": "bert_texts", "input": text}, as_floats(found["vector"]),
                     lambda answer: as_floats(answer["data"][0]["embedding"])))
    connection = connect(port)
    for text in lines:
        for path, body in (("/v1/completions", {"model": "llama", "prompt": text[:24], "max_tokens": 12, "seed": len(text)}),
                           ("/v1/chat/completions", {"model": "chat", "messages": [{"role": "user", "content": text}], "max_tokens": 12,
                                                     "seed": len(text)}),
                           ("/v1/attention", {"model": "marian", "text": text})):
            status, answer = post(connection, path, body)
            if status != 200:
                sys.exit(f"{path} {body}: {status} {answer}")
            work.append((path, body, without_identity(json.loads(answer)), without_identity))
    return work


class Run:
    def __init__(self, port, work):
        self.port, self.work = port, work
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.answers, self.problems = 0, []
        self.disturbances = dict.fromkeys(("left", "slow", "deaf", "mutated", "reloads"), 0)

    def problem(self, text):
        with self.lock:
            self.problems.append(text)
        if len(self.problems) > 10:
            self.stop.set()

    def count(self, what):
        with self.lock:
            self.disturbances[what] += 1

    def disturb(self, kind, seed):
        try:
            kind(seed)
        except Exception as error:  # pylint: disable=broad-except
            self.problem(f"{kind.__name__}: {error!r}")

    def good(self, seed, requests):
        draw = random.Random(seed)
        connection = connect(self.port)
        sent = 0
        while not self.stop.is_set() and (requests is None or sent < requests):
            path, body, expected, compared = draw.choice(self.work)
            try:
                status, answer = post(connection, path, body)
            except (OSError, http.client.HTTPException) as error:
                self.problem(f"{path} {body}: {error!r}")
                connection = connect(self.port)
                continue
            sent += 1
            if status != 200 or compared(json.loads(answer)) != expected:
                self.problem(f"{path} {body}: {status} {answer[:300]}, expected {str(expected)[:300]}")
            with self.lock:
                self.answers += 1

    def raw(self, body, path="/v1/completions"):
        text = json.dumps(body).encode()
        return f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text

    def stream(self):
        return self.raw({"model": "llama", "prompt": "a red", "max_tokens": 100, "min_tokens": 100, "stream": True})

    def leaves(self, seed):
        draw = random.Random(seed)
        while not self.stop.is_set():
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                connection.settimeout(60)
                connection.sendall(self.stream())
                received = b""
                for _ in range(draw.randint(0, 3)):
                    received += connection.recv(4096)
                    if b"[DONE]" in received:
                        break
                if draw.random() < 0.5:  # a reset
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.count("left")
            time.sleep(0.05)

    def slow(self, seed):
        draw = random.Random(seed)
        while not self.stop.is_set():
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                try:
                    for byte in self.stream()[:draw.randint(1, 60)]:
                        connection.sendall(bytes([byte]))
                        time.sleep(0.1)
                        if self.stop.is_set():
                            return
                except OSError:
                    pass  # 408
            self.count("slow")

    def deaf(self, seed):
        draw = random.Random(seed)
        while not self.stop.is_set():
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.sendall(self.stream() * 5)
                self.stop.wait(draw.random() * 5)
            self.count("deaf")

    def mutates(self, seed):
        draw = random.Random(seed)
        while not self.stop.is_set():
            path, body, _, _ = draw.choice(self.work)
            data = bytearray(self.raw(body, path))
            for _ in range(draw.randint(1, 6)):
                at = draw.randrange(len(data))
                data[at:at + draw.randint(0, 4)] = bytes(draw.randrange(256) for _ in range(draw.randint(0, 4)))
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                connection.settimeout(0.5)
                try:
                    connection.sendall(data)
                    answer = connection.recv(4096)
                    if answer.startswith(b"HTTP/1.1 5") and not answer.startswith((b"HTTP/1.1 501", b"HTTP/1.1 505")):
                        self.problem(f"{bytes(data)}: {answer}")
                except OSError:
                    pass  # it waits for the rest
            self.count("mutated")
            time.sleep(0.02)

    def reloads(self, _seed):
        while not self.stop.wait(5):
            status, answer = post(connect(self.port), "/v1/reload", {})
            if status != 200:
                self.problem(f"/v1/reload: {status} {answer}")
            self.count("reloads")


def resident_mb(process):
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise KeyError("VmRSS")


def metric(port, name):
    connection = connect(port)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{") or line.startswith(name + " "))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("qkv")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float)
    length.add_argument("--requests", type=int)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--quiet-clients", action="store_true", help="none that misbehave")
    args = parser.parse_args()

    scratch = tempfile.TemporaryDirectory()
    FOLDERS["chat"] = chat_folder(scratch.name)
    process, url = running_server.start(args.qkv, FOLDERS)
    port = int(url.rpartition(":")[2])
    try:
        run = Run(port, requests_with_answers(args.qkv, port))
        each = None if args.requests is None else -(-args.requests // args.clients)
        clients = [threading.Thread(target=run.good, args=(seed, each)) for seed in range(args.clients)]
        disturbing = [] if args.quiet_clients else [threading.Thread(target=run.disturb, args=(kind, 100 + k))
                                                    for kind in (run.leaves, run.slow, run.deaf, run.mutates) for k in range(3)]
        if not args.quiet_clients:
            disturbing.append(threading.Thread(target=run.disturb, args=(run.reloads, 0)))
        began, memory = time.monotonic(), []
        for thread in clients + disturbing:
            thread.start()
        while any(thread.is_alive() for thread in clients):
            time.sleep(0.25)
            memory.append(resident_mb(process))
            if args.minutes and time.monotonic() - began > 60 * args.minutes:
                run.stop.set()
            if process.poll() is not None:
                run.problem(f"the server ended with status {process.returncode}: {process.stderr.read()}")
                break
        seconds = time.monotonic() - began
        run.stop.set()
        for thread in clients + disturbing:
            thread.join()
        for _ in range(200):
            if metric(port, "qkv_running_requests") + metric(port, "qkv_queue_requests") == 0:
                break
            time.sleep(0.05)
        left_over = metric(port, "qkv_running_requests") + metric(port, "qkv_queue_requests")
        if left_over:
            run.problem(f"{left_over} requests are left in queues")
        if each is not None and run.answers != each * args.clients:
            run.problem(f"expected {each * args.clients} answers, found {run.answers}")
        early, late = max(memory[:len(memory) // 10 + 1]), max(memory[-(len(memory) // 10 + 1):])
        if late > 1.1 * early + 8:
            run.problem(f"memory grew from {early:.1f} MB to {late:.1f} MB")
        print(f"{run.answers} answers in {seconds:.0f} s equal the expected ones; besides: "
              + ", ".join(f"{count} {what}" for what, count in run.disturbances.items())
              + f". Memory: {early:.1f} MB in the first tenth, {late:.1f} MB in the last.")
        for text in run.problems:
            print("FAIL", text)
    finally:
        process.terminate()
        status = process.wait(timeout=60)
    sys.exit(1 if run.problems or status != 0 else 0)


if __name__ == "__main__":
    main()
