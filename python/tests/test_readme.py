"""Every snippet of README.md runs as it is shown, with small models under the names that it shows. C++ is quoted from
examples/ (examples.readme)."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "interop"))
from hub_server import Hub  # noqa: E402

FOLDERS = ROOT / "tests" / "apps" / "golden" / "hub"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)


@pytest.fixture(scope="module")
def place(tmp_path_factory, command):
    """A folder with the files that the snippets name, and an environment in which `qkv pull` reaches a hub of small models.
    Models that are trained have 16 features, and 2 steps."""
    folder = tmp_path_factory.mktemp("readme")
    program = shutil.which(os.environ["QKV_PROGRAM"])
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "qkv"
    wrapper.write_text(f"""#!/bin/sh
limits=
[ "$1" != train ] || limits='--preset tiny --set model.d_model=16 --set model.d_ff=16 --vocab-size 40 --max-steps 2 --threads 1 --quiet'
exec {shlex.quote(program)} "$@" $limits
""")
    wrapper.chmod(0o755)
    for name, text in {"train.en": "A man sleeps.\nA cat sleeps.\n", "train.de": "Ein Mann schläft.\nEine Katze schläft.\n"}.items():
        (folder / name).write_text(text * 20, encoding="utf-8")
    hub = Hub({
        "HuggingFaceTB/SmolLM2-135M-Instruct": FOLDERS / "TinyLlama-1.1B-Chat-v1.0",
        "sentence-transformers/all-MiniLM-L6-v2": FOLDERS / "all-MiniLM-L6-v2",
    })
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment |= {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HF_ENDPOINT": hub.url(),
        "HF_HOME": str(folder / "cache"),
    }
    yield folder, environment
    hub.close()


def run(place, arguments, text=""):
    folder, environment = place
    done = subprocess.run(arguments, cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    assert "rror" not in done.stderr, done.stderr
    return done.stdout


def test_the_two_commands_are_programs_and_the_gate_calls_the_second(place):
    build, tests = (line.split()[0] for line in blocks("sh")[0].splitlines())
    assert (build, tests) == ("./scripts/demo", "./scripts/test")
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "scripts/test"
    if os.environ.get("QKV_LONG_TESTS"):
        run(place, [str(ROOT / build), "--out", "demo", "--steps", "2"])
        assert (place[0] / "demo" / "attention.html").exists()


def test_the_terminal_and_python_show_the_same_model(place):
    run(place, ["sh", "-euxc", blocks("sh")[1]], "What is a cat?\n")
    page = place[0] / "attention.html"
    from_terminal = page.read_text(encoding="utf-8")
    assert "A man sleeps." in from_terminal
    page.unlink()
    [snippet] = blocks("python")
    printed = run(place, [sys.executable, "-X", "dev", "-W", "error", "-c", snippet + "\nassert len(german) == 1"])
    assert len(printed) > 10
    assert page.read_text(encoding="utf-8") == from_terminal


def test_the_server_answers_what_is_asked(place):
    lines = blocks("sh")[2].splitlines()
    [serve] = [line for line in lines if line.startswith("qkv serve")]
    assert lines.index(serve) == 1 and all(line.startswith("curl ") for line in lines[2:]) and len(lines) == 4
    run(place, ["sh", "-euc", f"{lines[0]}\nqkv pull HuggingFaceTB/SmolLM2-135M-Instruct"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    folder, environment = place
    server = subprocess.Popen(
        ["sh", "-c", "exec " + serve.replace("8080", port)], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        end = time.monotonic() + 60
        while server.poll() is None and time.monotonic() < end:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", int(port))) == 0:
                    break
            time.sleep(0.02)
        chat, vectors = (
            json.loads(run(place, ["sh", "-euc", line.replace("8080", port).replace("curl ", "curl -s --noproxy '*' ")]))
            # A small random model that samples may well choose the end first; this seed does not.
            for line in (lines[2].replace('{"messages"', '{"seed": 1, "messages"'), lines[3])
        )
        page = run(place, ["curl", "-s", "--noproxy", "*", f"http://localhost:{port}/"])
    finally:
        server.terminate()
        messages = server.communicate()[1]
    assert server.returncode == 0, messages
    assert chat["choices"][0]["message"]["content"], messages
    assert len(vectors["data"][0]["embedding"]) == 16
    assert "<html" in page


def test_the_chart_has_the_figures_of_the_documents():
    subprocess.run([sys.executable, str(ROOT / "docs" / "pictures" / "speed.py"), "--check"], check=True)


def test_links_lead_to_files_and_headings():
    def anchors(path):
        found = []
        for heading in re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M):
            found.append(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
        return found

    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
        links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
        for link in links:
            if re.match(r"https?:", link):
                continue
            path, _, anchor = link.partition("#")
            target = document.parent / path if path else document
            assert target.exists(), f"{document.name}: {link}"
            if anchor:
                assert anchor in anchors(target), f"{document.name}: {link}"


def test_the_page_is_short():
    assert len(README.splitlines()) <= 120
