"""Starts `qkv serve` on a free port, for the checks in this folder."""

import socket
import subprocess
import sys
import time
import urllib.request


def start(qkv, folders, *options):
    """Serves the folders by their names. The process, and its address, once it is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([qkv, "serve", *(f"{name}={folder}" for name, folder in folders.items()), *map(str, options),
                                "--port", str(port)], stderr=subprocess.PIPE, text=True)
    for _ in range(500):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5)
            return process, f"http://127.0.0.1:{port}"
        except OSError:
            if process.poll() is not None:
                sys.exit(process.stderr.read())
            time.sleep(0.02)
    process.kill()
    sys.exit("the server is not ready after 10 s")
