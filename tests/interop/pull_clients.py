"""qkv pull beside huggingface_hub: both download from one server, into caches that must be equal, and each finds what the other
downloaded. Usage: pull_clients.py QKV
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from hub_server import Hub

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKEN = "hf_test"
# Of huggingface_hub itself: its own list of the files, which it keeps, and folders that it makes beforehand.
OWN = ("trees", ".no_exist")


def check(holds, what):
    print("ok    " if holds else "FAILED", what)
    if not holds:
        sys.exit(1)


def layout(cache):
    """Files by name: links with their target, other files with their content; no locks."""
    found = {}
    for path in sorted(cache.rglob("*")):
        name = path.relative_to(cache)
        if name.parts[0] == ".locks" or (len(name.parts) > 1 and name.parts[1] in OWN):
            continue
        if path.is_symlink():
            found[str(name)] = os.readlink(path)
        elif path.is_file() and path.name != "CACHEDIR.TAG":
            found[str(name)] = path.read_bytes()
    return found


def main(qkv):
    folder = ROOT / "tests/models/golden/bert_texts"
    hub = Hub({"org/tiny": folder}, token=TOKEN)
    with tempfile.TemporaryDirectory() as scratch:
        caches = {name: pathlib.Path(scratch, name) for name in ("python", "qkv")}
        clean = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        environment = {**clean, "HF_ENDPOINT": hub.url(), "HF_TOKEN": TOKEN, "HF_HOME": scratch, "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                       "HF_HUB_DISABLE_XET": "1"}

        def run(*arguments, cache, **more):
            return subprocess.run(arguments, capture_output=True, text=True, env={**environment, "HF_HUB_CACHE": str(caches[cache]), **more})

        def python(code, cache, **more):
            return run(sys.executable, "-c", "import huggingface_hub as h; " + code, cache=cache, **more)

        done = python("print(h.snapshot_download('org/tiny'))", cache="python")
        check(done.returncode == 0, f"huggingface_hub downloads from the server {done.stderr[-300:]}")
        done = run(qkv, "pull", "org/tiny", "--include", "*", cache="qkv")
        check(done.returncode == 0, f"qkv downloads from the server {done.stderr[-300:]}")
        check(layout(caches["python"]) == layout(caches["qkv"]), "both caches have the same files, links and references")
        locks = [sorted(p.name for p in (cache / ".locks/models--org--tiny").iterdir()) for cache in caches.values()]
        check(not locks[0] or locks[0] == locks[1], "and the same locks, if any are left")
        check(all("Authorization" not in headers and "authorization" not in headers for _, _, headers in hub.requests["storage"]),
              "the storage has received no token")

        before = len(hub.requests["hub"])
        done = python("print(h.snapshot_download('org/tiny', local_files_only=True))", cache="qkv")
        check(done.returncode == 0 and done.stdout.startswith(str(caches["qkv"])), "huggingface_hub finds what qkv downloaded")
        done = python("print(h.scan_cache_dir().repos)", cache="qkv")
        check("org/tiny" in done.stdout, "hf cache scan lists it")
        for more in ({}, {"HF_HUB_OFFLINE": "1"}):
            done = run(qkv, "embed", "org/tiny", "a red dog", cache="python", **more)
            check(done.returncode == 0, f"qkv opens what huggingface_hub downloaded {done.stderr[-300:]}")
        check(len(hub.requests["hub"]) == before, "without a request")

        before = len(hub.requests["storage"])
        done = run(qkv, "pull", "org/tiny", "--include", "*", cache="python")
        check(done.returncode == 0 and ", 0 B downloaded" in done.stderr, f"qkv pull takes over files of huggingface_hub {done.stderr}")
        done = python("h.snapshot_download('org/tiny')", cache="qkv")
        check(done.returncode == 0 and len(hub.requests["storage"]) == before, "huggingface_hub takes over files of qkv pull")
        done = run(qkv, "pull", "org/tiny", cache="qkv", HF_TOKEN="hf_wrong")
        check(done.returncode == 1 and "or a private one" in done.stderr, "a wrong token is refused")
    hub.close()


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
