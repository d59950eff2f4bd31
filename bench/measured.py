"""Runs a program and measures its peak memory.

    python -I -S measured.py PEAK_FILE COMMAND...   # runs the command, and writes its peak resident memory in MB

A process's peak includes that of the process it was forked from: a child of a Python process with torch starts with torch's.
Commands are therefore started from a bare Python (8 MB), which runs this file.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path


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
