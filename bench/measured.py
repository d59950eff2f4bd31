"""Common to the comparisons: the form of their tables, ratios, running programs, and their peak memory.

    python -I -S measured.py PEAK_FILE COMMAND...   # runs the command, and writes its peak resident memory in MB

A process's peak includes that of the process it was forked from: a child of a Python process with torch starts with torch's.
Commands are therefore started from a bare Python (8 MB), which runs this file.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def row(*cells):
    """Prints a row of a Markdown table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def table(topic, columns, rows=()):
    """Prints a Markdown table after its topic, processor, date and command. row() prints further rows as they are measured."""
    models = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = models[0] if models else "unknown processor"
    print(f"\n{topic}. {processor}, {len(os.sched_getaffinity(0))} cores, {datetime.date.today()}:\n")
    print(f"    python {' '.join(sys.argv)}\n")
    row(*columns)
    row(*["---"] * len(columns))
    for cells in rows:
        row(*cells)


def folder_arguments(doc):
    """--qkv, --rounds, and the folder of a model."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", default="build/release/bin/qkv")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("folder")
    return parser.parse_args()


def spread(ratios, digits=2):
    """The median of the rounds' ratios, their minimum and maximum."""
    return f"{statistics.median(ratios):.{digits}f} ({min(ratios):.{digits}f} to {max(ratios):.{digits}f})"


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measuring(peak_file, command):
    """The command line that runs `command` and writes its peak memory."""
    return [sys.executable, "-I", "-S", __file__, str(peak_file), *map(str, command)]


def resident_mb(key):
    """This process's memory from /proc: "VmRSS" now, "VmHWM" at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def reset_peak():
    """Resets this process's peak memory; returns its resident memory in MB."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident_mb("VmRSS")


def run_measured(command, lines=()):
    """Runs a command with these input lines; returns its standard output and peak resident memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        peak = Path(folder) / "peak"
        text = "".join(line + "\n" for line in lines).encode()
        run = subprocess.run(measuring(peak, command), input=text, capture_output=True, check=False)
        if run.returncode != 0:
            sys.exit(f"{command[0]}: exit status {run.returncode}\n{run.stderr.decode(errors='replace')[-2000:]}")
        return run.stdout.decode(), float(peak.read_text())


class LineProcess:
    """A running command that answers each input line with a line."""

    def __init__(self, command):
        self.command, self.folder = command, tempfile.TemporaryDirectory()
        self.peak = Path(self.folder.name) / "peak"
        self.began = time.perf_counter()
        self.process = subprocess.Popen(measuring(self.peak, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")
        self.first_ms = None  # from the start to the first answer

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        self.first_ms = self.first_ms or 1000 * (time.perf_counter() - self.began)
        return answer

    def timed(self, lines):
        """The answers, and the milliseconds until each."""
        answers, latencies = [], []
        for line in lines:
            began = time.perf_counter()
            answers.append(self.ask(line))
            latencies.append(1000 * (time.perf_counter() - began))
        return answers, latencies

    def timed_together(self, lines):
        """The answers to lines that are sent at once, and the seconds until the last."""
        began = time.perf_counter()
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()
        answers = [self.process.stdout.readline() for _ in lines]
        seconds = time.perf_counter() - began
        if not all(answers):
            sys.exit(f"{self.command[0]}: expected {len(lines)} answers, found {answers}")
        return answers, seconds

    def end(self):
        """Returns the peak resident memory in MB."""
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit(f"{self.command[0]}: exit status {self.process.returncode}")
        peak = float(self.peak.read_text())
        self.folder.cleanup()
        return peak


def run_worker(script, job):
    """Runs a script with `--worker JOB`, JSON in a file; returns the JSON object in the last line of its output."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.json"
        file.write_text(json.dumps(job))
        run = subprocess.run([sys.executable, script, "--worker", str(file)], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(run.stderr[-3000:])
        return json.loads(run.stdout.splitlines()[-1])


if __name__ == "__main__":
    process = subprocess.Popen(sys.argv[2:])
    _, status, usage = os.wait4(process.pid, 0)
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write(str(usage.ru_maxrss / 1024))
    sys.exit(max(0, os.waitstatus_to_exitcode(status)) or (1 if status else 0))
