"""Time from the end of a message to the first text of its answer in `qkv chat`, at a terminal: without history, and after a
conversation of some length.

    python bench/chat_first_token.py --qkv build/release/bin/qkv SmolLM2-135M-Instruct [--history 2000] [--runs 9]
"""

import argparse
import json
import os
import pty
import select
import statistics
import subprocess
import tempfile
import threading
import time
import tty

# About 20 tokens. Numbers make each message differ from its first token on: the same one would be kept.
TURN = "{} friends ask you why the sky is blue in the day and dark at night."
LONG = "The captain of the old ship looked at the sea, at the sky, and at the men who waited for his word. " * 6
PAUSE = 5  # seconds between an answer and the next message, which a person spends on writing it


class Chat:
    """The program at a terminal; its stdout, with the answers alone, is a pipe."""

    def __init__(self, qkv, folder, options):
        self.terminal, child = pty.openpty()
        tty.setraw(self.terminal)
        self.process = subprocess.Popen([qkv, "chat", folder, *options], stdin=child, stderr=child, stdout=subprocess.PIPE,
                                        start_new_session=True)
        os.close(child)
        threading.Thread(target=self.drain, daemon=True).start()
        time.sleep(1)

    def drain(self):
        try:
            while os.read(self.terminal, 65536):
                pass
        except OSError:
            pass

    def ask(self, message):
        """Seconds to the first byte of the answer; waits for its end."""
        os.write(self.terminal, message.encode())
        time.sleep(0.2)  # the editor has drawn the line
        begin = time.perf_counter()
        os.write(self.terminal, b"\n")
        out = self.process.stdout.fileno()
        text = os.read(out, 1)
        seconds = time.perf_counter() - begin
        while not text.endswith(b"\n") or self.more(out):
            text += os.read(out, 65536)
        time.sleep(PAUSE)
        return seconds

    @staticmethod
    def more(out):
        return bool(select.select([out], [], [], 0.5)[0])

    def command(self, line):
        os.write(self.terminal, line.encode() + b"\n")
        time.sleep(0.5)

    def tokens(self, tokenizer):
        """Of the conversation, as the template renders it."""
        with tempfile.NamedTemporaryFile() as file:
            self.command(f"/save {file.name}")
            with open(file.name) as saved:
                return len(tokenizer.apply_chat_template(json.load(saved), tokenize=True, return_dict=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--qkv", default="build/release/bin/qkv")
    parser.add_argument("--history", type=int, default=2000, help="tokens")
    parser.add_argument("--runs", type=int, default=9)
    arguments, options = parser.parse_known_args()
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(arguments.folder)
    print("a turn of", len(tokenizer.encode(TURN.format(17), add_special_tokens=False)), "tokens")

    chat = Chat(arguments.qkv, arguments.folder, ["--greedy", "--max-new-tokens", "40", *options])
    before, after, first = [], [], 0
    for run in range(arguments.runs + 1):
        chat.command("/reset")
        before.append(chat.ask(TURN.format(run)))
    chat.command("/reset")
    chat.ask(LONG)
    while chat.tokens(tokenizer) < arguments.history:
        chat.ask(LONG)
    for run in range(arguments.runs):
        tokens = chat.tokens(tokenizer)
        after.append(chat.ask(TURN.format(run)))
        first = tokens if len(after) == 1 else first
    chat.command("/exit")
    print(f"without history: median {1000 * statistics.median(before[1:]):.0f} ms, {[round(1000 * x) for x in before]}")
    print(f"after {first} to {tokens} tokens: median {1000 * statistics.median(after):.0f} ms, {[round(1000 * x) for x in after]}")
    print(f"ratio {statistics.median(after) / statistics.median(before[1:]):.2f}")


main()
