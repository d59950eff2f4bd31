"""Common to the comparisons: the form of their tables, ratios, and the peak memory of a program.

    python -I -S measured.py PEAK_FILE COMMAND...   # runs the command, and writes its peak resident memory in MB

A process's peak includes that of the process it was forked from: a child of a Python process with torch starts with torch's.
Commands are therefore started from a bare Python (8 MB), which runs this file.
"""

import datetime
import os
import statistics
import subprocess
import sys
import tempfile
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


def spread(ratios, digits=2):
    """The median of the rounds' ratios, their minimum and maximum."""
    return f"{statistics.median(ratios):.{digits}f} ({min(ratios):.{digits}f} to {max(ratios):.{digits}f})"


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measuring(peak_file, command):
    """The command line that runs `command` and writes its peak memory."""
    return [sys.executable, "-I", "-S", __file__, str(peak_file), *map(str, command)]


def read_peak(peak_file):
    return float(Path(peak_file).read_text())


def resident_mb(key):
    """This process's memory from /proc: "VmRSS" now, "VmHWM" at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def run_measured(command):
    """Runs a command; returns its standard output and peak resident memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        peak = Path(folder) / "peak"
        run = subprocess.run(measuring(peak, command), capture_output=True, check=False)
        if run.returncode != 0:
            sys.exit(f"{command[0]}: exit status {run.returncode}\n{run.stderr.decode(errors='replace')[-2000:]}")
        return run.stdout.decode(), read_peak(peak)


if __name__ == "__main__":
    process = subprocess.Popen(sys.argv[2:])
    _, status, usage = os.wait4(process.pid, 0)
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write(str(usage.ru_maxrss / 1024))
    sys.exit(max(0, os.waitstatus_to_exitcode(status)) or (1 if status else 0))
