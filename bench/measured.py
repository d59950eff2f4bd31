"""Running a program and seeing how much memory it took."""

import os
import subprocess
import sys
import tempfile


def run_measured(command):
    """Runs a command; gives its standard output and its peak resident memory in MB."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        if process.returncode != 0:
            sys.exit(f"{command[0]}: exit status {process.returncode}\n{err.read().decode(errors='replace')[-2000:]}")
        return out.read().decode(), usage.ru_maxrss / 1024
