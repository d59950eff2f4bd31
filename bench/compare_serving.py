"""`qkv serve` under load, against the command line and other servers on the same lines.

    python bench/compare_serving.py --qkv build/release/bin/qkv --translation MODEL --source test.en --peers ctranslate2
    python bench/compare_serving.py --qkv build/release/bin/qkv --encoder all-MiniLM-L6-v2 --source test.en --peers sentence-transformers
    python bench/compare_serving.py --qkv build/release/bin/qkv --language SmolLM2 --source test.en --peers llama.cpp --gguf SmolLM2.gguf

Needs only Python; the peers need what serving_peers.py says. For each number of clients, each client sends one line at a time over
one connection (streams: over one each) and waits for its answer: requests/s, median and 95th percentile of the time of a request. Language models stream
--tokens tokens of each line (greedy, without an end token): tokens/s, the time to the first token, and the time between tokens. The
clients' first streams have different lengths, so that each later one begins while those of the others run, after a random pause
of up to --pause seconds, as a stream that follows another at once always finds a step just begun; the first streams count for the
rate only. Every answer of qkv is compared with the command's. The rate's share of the library's own is that of the command with all lines at once,
minus its start-up for one line.

All servers run from the start, and are loaded in turn in each round. The load generator runs on the same machine and takes its share
of the processors. --idle measures the memory of idle connections, --slow how much clients that send a byte at a time or do not
read delay others.
"""

import argparse
import http.client
import json
import multiprocessing
import random
import resource
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from measured import percentile, row as print_row, table


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Served:
    """A running server, ended by its process id."""

    def __init__(self, name, command, ready="/ready"):
        self.name, self.port = name, free_port()
        began = time.perf_counter()
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*map(str, command), "--port", str(self.port)], stdout=subprocess.DEVNULL, stderr=self.errors)
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", ready)
                if connection.getresponse().status == 200:
                    break
            except OSError:
                if self.process.poll() is not None:
                    self.errors.seek(0)
                    sys.exit(self.errors.read().decode())
            time.sleep(0.002)
        self.start_ms = 1000 * (time.perf_counter() - began)

    def end(self):
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


class Translation:
    path, command = "/v1/translate", "translate"

    def __init__(self, args):
        self.folder, self.options, self.beam = args.translation, ["--beam", args.beam], args.beam

    def body(self, line, share):
        return {"text": line, "beam": self.beam}

    def answer(self, reply):
        return reply["translations"][0]["translation"]

    def expected(self, result):
        return result["translation"]


class Embedding:
    path, command, options = "/v1/embeddings", "embed", []

    def __init__(self, args):
        self.folder = args.encoder

    def body(self, line, share):
        return {"input": line}

    def answer(self, reply):
        return as_floats(reply["data"][0]["embedding"])

    def expected(self, result):
        return as_floats(result["vector"])


class Writing:
    path, command = "/v1/completions", "generate"

    def __init__(self, args):
        self.folder, self.tokens, self.pause = args.language, args.tokens, args.pause
        self.options = ["--max-new-tokens", args.tokens, "--min-new-tokens", args.tokens]

    def body(self, line, share):
        # ignore_eos: llama.cpp's min_tokens
        tokens = self.length(share)
        return {"prompt": line, "max_tokens": tokens, "temperature": 0, "stream": True} | (
            {"min_tokens": tokens} if self.peer is None else {"ignore_eos": True, "cache_prompt": False})

    peer = None

    def length(self, share):
        return max(1, round(share * self.tokens))

    def expected(self, result):
        return result["texts"][0]["text"]


def read_stream(response, began):
    """The text of a stream, and the times of its parts since `began`."""
    text, times = "", []
    while line := response.readline():
        if not line.startswith(b"data: {"):
            continue
        times.append(time.perf_counter() - began)
        text += json.loads(line[6:])["choices"][0]["text"]
    return text, times


def share_of(k, clients):
    """Of --tokens: the clients' first streams are shorter."""
    return (k + 1) / clients if k < clients else 1


class Client(threading.Thread):
    def __init__(self, port, work, lines, indices, clients):
        super().__init__()
        self.port, self.work, self.lines, self.indices, self.clients = port, work, lines, indices, clients
        self.times, self.answers, self.streams, self.error = [], [], [], None

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        for k in self.indices:
            if isinstance(self.work, Writing) and k >= self.clients:
                time.sleep(random.Random(k).uniform(0, self.work.pause))
            body = json.dumps(self.work.body(self.lines[k % len(self.lines)], share_of(k, self.clients)))
            began = time.perf_counter()
            connection.request("POST", self.work.path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                self.error = f"{response.status}: {response.read()[:300]}"
                return
            if isinstance(self.work, Writing):
                text, times = read_stream(response, began)
                self.streams.append((k, times))
                self.answers.append((k, text))
                connection.close()  # as llama.cpp's server does after a stream
            else:
                self.answers.append((k, response.read()))
            self.times.append(time.perf_counter() - began)


def generator(port, work, lines, mine, number, results):
    """The clients of one process."""
    clients = [Client(port, work, lines, indices, number) for indices in mine]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    results.put([(client.times, client.answers, client.streams, client.error) for client in clients])


class Load:
    """What a server did for a number of clients."""

    def __init__(self, served, work, lines, clients, count, generators):
        results = multiprocessing.Queue()
        indices = [range(c, count, clients) for c in range(clients)]
        processes = [multiprocessing.Process(target=generator, args=(served.port, work, lines, indices[g::generators], clients, results))
                     for g in range(min(generators, clients))]
        began, before = time.perf_counter(), served.processor_seconds()
        for process in processes:
            process.start()
        found = [one for _ in processes for one in results.get()]
        self.seconds = time.perf_counter() - began
        for process in processes:
            process.join()
        for _, _, _, error in found:
            if error:
                sys.exit(f"{served.name}: {error}")
        self.times = [one for some, _, _, _ in found for one in some]
        self.answers = [one for _, some, _, _ in found for one in some]
        self.tokens = sum(work.length(share_of(k, clients)) for k in range(count)) if isinstance(work, Writing) else None
        self.streams = [times for _, _, some, _ in found for k, times in some if k >= clients]
        self.processor = (served.processor_seconds() - before) / count
        if len(self.answers) != count:
            sys.exit(f"{served.name}: expected {count} answers, found {len(self.answers)}")


def timed(command, text):
    """Seconds, processor seconds, output."""
    def processor():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    began, before = time.perf_counter(), processor()
    done = subprocess.run([*map(str, command)], input=text, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, processor() - before, done.stdout


def loris(port, work, stop):
    """Sends a request a byte at a time, or does not read its answers."""
    request = json.dumps(work.body("a slow line", 1)).encode()
    request = f"POST {work.path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(request)}\r\n\r\n".encode() + request
    while not stop.is_set():
        with socket.create_connection(("127.0.0.1", port)) as connection:
            try:
                for byte in request[:-1]:
                    connection.sendall(bytes([byte]))
                    if stop.wait(0.2):
                        return
            except OSError:
                pass  # 408


def measure_slow(served, work, lines, args):
    """Times of others with and without slow clients, alternating."""
    late = {False: [], True: []}
    for k in range(2 * args.rounds):
        stop = threading.Event()
        slow = [threading.Thread(target=loris, args=(served.port, work, stop)) for _ in range(args.slow if k % 2 else 0)]
        for thread in slow:
            thread.start()
        late[k % 2 == 1].append(percentile(Load(served, work, lines, 16, len(lines), args.generators).times, 0.95))
        stop.set()
        for thread in slow:
            thread.join()
    without, beside = statistics.median(late[False]), statistics.median(late[True])
    print(f"{args.slow} clients that send a byte each 0.2 s: 95 % of 16 others' requests {1000 * beside:.1f} ms, without them "
          f"{1000 * without:.1f} ms: {beside / without:.2f} times.")


def rows_of(loads, work, rate):
    """Medians over rounds."""
    def median(value):
        return statistics.median(value(load) for load in loads)

    per_second = median(lambda load: len(load.times) / load.seconds)
    if isinstance(work, Writing):
        between = [[b - a for times in load.streams for a, b in zip(times, times[1:])] for load in loads]
        first = median(lambda load: statistics.median(times[0] for times in load.streams))
        return (median(lambda load: load.tokens / load.seconds), first, statistics.median(map(statistics.median, between)),
                statistics.median(percentile(some, 0.95) for some in between), median(lambda load: load.processor))
    return (per_second, median(lambda load: statistics.median(load.times)), median(lambda load: percentile(load.times, 0.95)),
            per_second / rate if rate else None, median(lambda load: load.processor))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", required=True)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--translation", help="folder")
    which.add_argument("--encoder", help="folder")
    which.add_argument("--language", help="folder")
    parser.add_argument("--source", type=Path, required=True, help="text, a line a request")
    parser.add_argument("--peers", nargs="*", default=[], choices=["ctranslate2", "sentence-transformers", "infinity", "llama.cpp"])
    parser.add_argument("--gguf", help="llama.cpp's model")
    parser.add_argument("--infinity", default="infinity_emb", help="the program, from an environment of its own")
    parser.add_argument("--dtype", choices=["f32", "int8"], help="of the weights, on both sides where the peer is CTranslate2")
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--requests", type=int, help="at least, for each number of clients; more than lines: these are repeated")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds before a further stream of a client, at most (default: 0.1)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--generators", type=int, default=1, help="processes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=int, default=0, help="idle connections to measure the memory of")
    parser.add_argument("--slow", type=int, default=0, help="slow clients to measure the delay by")
    parser.add_argument("--option", action="append", default=[], help="further option of qkv serve, as --option=--queue=9")
    args = parser.parse_args()

    work = (Translation if args.translation else Embedding if args.encoder else Writing)(args)
    lines = [line for line in args.source.read_text().splitlines() if line][:args.lines]
    dtype = ["--dtype", args.dtype] if args.dtype else []
    command = [args.qkv, work.command, work.folder, *work.options, "--json", "--threads", args.threads, *dtype]
    peers = Path(__file__).parent / "serving_peers.py"
    servers = [Served("qkv", [args.qkv, "serve", f"m={work.folder}", "--threads", args.threads, "--queue", 4096, *dtype, *args.option])]
    for peer in args.peers:
        if peer == "infinity":
            servers.append(Served(peer, [args.infinity, "v2", "--model-id", Path(work.folder).absolute(), "--served-model-name", "m",
                                         "--engine", "torch", "--device", "cpu", "--url-prefix", "/v1", "--no-bettertransformer",
                                         "--log-level", "error"],
                                  "/health"))
        else:
            servers.append(Served(peer, [sys.executable, peers, peer, args.gguf or work.folder, "--threads", args.threads,
                                         "--compute-type", {"f32": "float32"}.get(args.dtype or "f32", args.dtype)],
                                  "/v1/models" if peer == "llama.cpp" else "/ready"))
    try:
        loads = {(server.name, clients): [] for clients in args.clients for server in servers}
        rates, processors = [], []
        for _ in range(args.rounds):
            one, one_processor, _ = timed(command, lines[0] + "\n")
            all_of_them, all_processor, output = timed(command, "\n".join(lines) + "\n")
            processors.append((all_processor - one_processor) / len(lines))
            expected = [work.expected(json.loads(line)) for line in output.splitlines()]
            rates.append(len(lines) / (all_of_them - one))
            for clients in args.clients:
                count = max(args.requests or (16 if args.language else 400), (6 if args.language else 20) * clients)
                for server in servers:
                    if args.language:
                        work.peer = None if server.name == "qkv" else server.name
                    load = Load(server, work, lines, clients, count, args.generators)
                    loads[server.name, clients].append(load)
                    if server.name != "qkv":
                        continue
                    found = [(k, body if args.language else work.answer(json.loads(body))) for k, body in load.answers]
                    wrong = sum(not expected[k % len(lines)].startswith(one) if args.language and k < clients
                                else one != expected[k % len(lines)] for k, one in found)
                    if wrong:
                        sys.exit(f"{clients} clients: {wrong} of {count} answers differ from the command's")
        rate = statistics.median(rates)
        if args.language:
            columns = ["tokens/s", "first token, ms", "between tokens: median, ms", "95 %, ms"]
        else:
            columns = ["requests/s", "median, ms", "95 %, ms", "95 % / median", "share of the library's rate"]
        table(f"`qkv serve`, medians of {args.rounds}", ["clients", "server", *columns, "processor, ms a request"])
        for clients in args.clients:
            own = rows_of(loads["qkv", clients], work, rate)
            for server in servers:
                row = rows_of(loads[server.name, clients], work, rate if server.name == "qkv" else None)
                cells = [f"{row[0]:.1f}", f"{1000 * row[1]:.2f}", f"{1000 * row[2]:.2f}"]
                if args.language:
                    cells.append(f"{1000 * row[3]:.1f}")
                else:
                    cells += [f"{row[2] / row[1]:.2f}", f"{row[3]:.2f}" if row[3] else ""]
                print_row(clients, server.name, *cells, f"{1000 * row[4]:.2f}")
                if server.name != "qkv":
                    ratios = [f"{own[0] / row[0]:.2f}", *(f"{row[k] / own[k]:.2f}" for k in ((1, 2, 3) if args.language else (1, 2)))]
                    print_row(clients, "times as good", *ratios, *[""] * (len(columns) + 1 - len(ratios)))
        unit = f"{rate * work.tokens:.1f} tokens/s" if args.language else f"{rate:.1f} lines/s"
        print(f"\nThe library alone: {unit}, processor {1000 * statistics.median(processors):.2f} ms a line. All answers of qkv equal the command's.")
        for server in servers:
            print(f"{server.name}: start to ready {server.start_ms:.0f} ms, memory after the load {server.resident_mb():.0f} MB.")
        if args.slow:
            measure_slow(servers[0], work, lines, args)
        if args.idle:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, args.idle + 500), hard))
            before = servers[0].resident_mb()
            idle = [socket.create_connection(("127.0.0.1", servers[0].port)) for _ in range(args.idle)]
            time.sleep(1)
            print(f"{len(idle)} idle connections: {servers[0].resident_mb() - before:.1f} MB.")
    finally:
        for server in servers:
            server.end()


if __name__ == "__main__":
    main()
