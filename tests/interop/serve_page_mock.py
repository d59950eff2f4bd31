"""A stand-in for `qkv serve`: the web page's files from the tree and invented answers in the shapes of its API.

    python tests/interop/serve_page_mock.py --port 8090

Texts with certain words do special things: "fail" is refused, "slow" takes seconds, "hostile" answers with markup.
"""

import argparse
import email
import email.policy
import hashlib
import http.server
import json
import math
import random
import socketserver
import threading
import time
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "qkv" / "serve" / "page"
POLICY = "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; style-src 'self'; script-src 'self'"
FILES = {"/": ("index.html", "text/html; charset=utf-8"), "/page.css": ("page.css", "text/css; charset=utf-8"),
         "/page.js": ("page.js", "text/javascript; charset=utf-8"), "/record.js": ("record.js", "text/javascript; charset=utf-8")}
MODELS = [("opus-mt-en-de", "translation", ["translate", "score", "attention"]), ("marian-small", "translation", ["translate"]),
          ("gpt2", "language", ["generate", "score", "attention"]), ("smollm2-instruct", "language", ["generate", "score", "attention", "chat"]),
          ("distilbert-sst2", "text", ["embed", "classify"]),
          ("all-minilm-l6", "text", ["embed", "attention"]), ("bert-ner", "text", ["tag"]), ("roberta-squad2", "text", ["embed", "answer"]),
          ("bert-base", "text", ["fill-mask", "attention"]),
          ("whisper-small", "speech", ["transcribe"]),
          ("vit-base", "image", ["classify-image", "embed-image", "attention-image"]),
          ("clip-vit-base", "image-text", ["embed-image", "attention-image", "classify-image"])]
HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(2)> &amp; " + "Donaudampfschiff" * 9 + " مرحبا بالعالم 👩‍👩‍👧 שלום"
GERMAN = {"the": "das", "small": "kleine", "house": "Haus", "by": "am", "river": "Fluss", "is": "ist", "old": "alt", "and": "und",
          "nobody": "niemand", "lives": "wohnt", "there": "dort", "any": "mehr", "more": "mehr"}
ALTERNATIVES = ["Haus", "Gebäude", "Heim", "Häuschen", "Wohnhaus"]
STORY = (" there lived a miller at the edge of the forest. He had three daughters, a blind horse and a mill that had not turned"
         " since the river changed its course. Every morning he listened for the water.").split(" ")[1:]


def seed_of(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little")


def pieces(text):
    """Pieces as of a unigram vocabulary: words begin with U+2581, and long ones are split."""
    result = []
    for word in text.split():
        word = "\u2581" + word
        result += [word] if len(word) <= 7 else [word[i:i + 6] for i in range(0, len(word), 6)]
    return result


def translated(text):
    if "hostile" in text or "<script" in text:
        return text + " " + HOSTILE
    return " ".join(GERMAN.get(word.lower().strip(".,"), word[::1]) + ("." if word.endswith(".") else "") for word in text.split())


def hypothesis(text, prefix, source, rank=0):
    tokens, draw = pieces(text) + ["</s>"], random.Random(seed_of(text, rank))
    known = len(pieces(prefix))
    logs = [0.0 if i < known else math.log(draw.uniform(0.3, 0.98) ** (1 + rank / 2)) for i in range(len(tokens))]
    return {"text": text, "score": sum(logs) / len(tokens), "tokens": tokens, "log_probability": sum(logs), "complete": rank != 3,
            "token_log_probabilities": logs, "alignment": [min(i, len(source) - 1) for i in range(len(tokens))]}


def trace(best, beam):
    """A search of `beam` hypotheses in which `best` wins."""
    draw, steps, beams = random.Random(seed_of(best)), [], [[]]
    words = ["▁das", "▁ein", "▁Haus", "▁alt", "er", "▁Gebäude", "▁am", "▁Fluss", "▁und", "▁ist", "▁kleine", "s", "▁dort", "▁noch"]
    total = {"": 0.0}
    for step, token in enumerate(best):
        candidates = []
        for rank, parent in enumerate(beams):
            options = ([token] if rank == 0 else []) + draw.sample(words, 3)
            for k, option in enumerate(dict.fromkeys(options)):
                log = math.log(draw.uniform(0.5, 0.95) if rank == 0 and k == 0 else draw.uniform(0.02, 0.3))
                before = total[" ".join(parent)]
                candidates.append({"hypothesis": parent, "token": option, "log_probability": log, "total": before + log,
                                   "penalty": (step + 1) ** 0.6, "coverage": 0.0, "score": (before + log) / (step + 1) ** 0.6,
                                   "fate": "pruned"})
        candidates.sort(key=lambda one: (one["hypothesis"] + [one["token"]] != best[:step + 1], -one["score"]))
        candidates = candidates[:2 * beam]
        ended = token == "</s>"
        for rank, one in enumerate(candidates[:beam]):
            one["fate"] = "finished" if one["token"] == "</s>" else "kept"
            total[" ".join(one["hypothesis"] + [one["token"]])] = one["total"]
        beams = [one["hypothesis"] + [one["token"]] for one in candidates if one["fate"] == "kept"]
        steps.append(candidates)
        if ended:
            break
    return {"steps": steps}


def translation(text, body):
    if not text.strip() or "fail" in text:
        return {"error": "text: expected at most 512 source tokens, found 513"}
    source, prefix, target = pieces(text) + ["</s>"], body.get("prefix", ""), translated(text)
    if prefix:
        words, forced = target.split(), prefix.split()
        target = " ".join(forced + words[len(forced):])
    result = {"translation": target, "truncated": False, "source_tokens": source}
    if body.get("alternatives"):
        forced, words = prefix.split(), target.split()
        rest = words[len(forced):]
        options = list(dict.fromkeys((rest[:1] or ["</s>"]) + ALTERNATIVES))[:body["alternatives"]]
        result["hypotheses"] = [hypothesis(" ".join(forced + ([] if word == "</s>" else [word]) + rest[1:]), prefix, source, i)
                                for i, word in enumerate(options)]
        return result
    words = target.split()
    texts = [target] + [" ".join(words[:i % len(words)] + [ALTERNATIVES[i % 5]] + words[i % len(words) + 1:])
                        for i in range(1, body.get("nbest", 1))]
    result["hypotheses"] = [hypothesis(one, prefix, source, i) for i, one in enumerate(texts)]
    if body.get("trace"):
        result["trace"] = trace(result["hypotheses"][0]["tokens"][len(pieces(prefix)):], body.get("beam", 1))
    return result


def softmaxed(draw, rows, columns, layers, heads):
    """Weights near the diagonal."""
    def row(i):
        raw = [math.exp(3 * draw.random() - abs(i * columns / rows - j) * 1.2) for j in range(columns)]
        return [w / sum(raw) for w in raw]
    return [[[row(i) for i in range(rows)] for _ in range(heads)] for _ in range(layers)]


class Refused(Exception):
    pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, body, kind="application/json", status=200):
        if not isinstance(body, bytes):
            body = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def error(self, status, message):
        self.send({"error": {"message": message, "type": "invalid_request_error", "code": None}}, status=status)

    def permitted(self):
        key = self.server.key
        if not key or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.error(401, "expected an API key")
        return False

    def do_GET(self):
        if self.path in FILES:
            name, kind = FILES[self.path]
            return self.send((PAGE / name).read_bytes(), kind)
        if self.path == "/metrics":
            self.server.polls += 1
            self.server.requests += random.randrange(0, 9)
            return self.send(f'# TYPE qkv_requests_total counter\nqkv_requests_total{{path="/v1/translate",status="200"}} '
                             f'{self.server.requests}\nqkv_requests_total{{path="/metrics"}} 5\nqkv_queue_requests 2\n'
                             "qkv_running_requests 3\n", "text/plain; version=0.0.4")
        if self.path != "/v1/models":
            return self.error(404, "no such path")
        if self.permitted():
            self.send({"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "qkv", "kind": kind,
                                                   "tasks": tasks,
                                                   **({"mask_token": "[MASK]"} if "fill-mask" in tasks else {}),
                                                   **({"images": True} if "chat" in tasks else {}),
                                                   **({"sentence_transformers": True} if "minilm" in name else {})} for name, kind, tasks in MODELS if name in self.server.models]})

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.permitted():
            return
        self.server.requests += 1
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/form-data"):
            message = email.message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + data, policy=email.policy.HTTP)
            body = {part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in message.iter_parts()}
        else:
            body = json.loads(data)
        self.server.seen.append((self.path, body))
        answers = {"/v1/translate": self.translate, "/v1/attention": self.attention, "/v1/completions": self.completions,
                   "/v1/chat/completions": self.chat,
                   "/v1/embeddings": self.embeddings, "/v1/classify": self.classify, "/v1/tag": self.tag, "/v1/answer": self.answer,
                   "/v1/fill-mask": self.fill_mask, "/v1/images/classify": self.image_labels,
                   "/v1/audio/transcriptions": self.transcription, "/v1/audio/translations": self.transcription,
                   "/v1/images/attention": self.image_attention}
        try:
            answers[self.path](body)
        except Refused as problem:
            self.error(400, str(problem))
        except (BrokenPipeError, ConnectionResetError):
            self.server.cut += 1
            self.close_connection = True

    def events(self, list_of_events, pause):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in list_of_events:
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
            time.sleep(pause)
        self.wfile.write(b"data: [DONE]\n\n")

    def translate(self, body):
        texts = body["text"] if isinstance(body["text"], list) else [body["text"]]
        if "refuse" in texts[0]:
            raise Refused('text: expected valid UTF-8, found "refuse" <b>bold</b>')
        if "slow" in texts[0]:
            time.sleep(2)
        done = [translation(text, body) for text in texts]
        if not body.get("stream"):
            time.sleep(0.05)
            return self.send({"model": body["model"], "translations": done})
        words = done[0].get("translation", "").split(" ") if "error" not in done[0] else []
        events = [{"text": word if i == 0 else " " + word} for i, word in enumerate(words)]
        self.events(events + [{"done": True, "translations": done}], self.server.pause)

    def attention(self, body):
        source, target = pieces(body["text"]) + ["</s>"], pieces(body.get("target") or translated(body["text"])) + ["</s>"]
        draw = random.Random(seed_of(body["text"]))
        layers = [{"part": "cross", "layer": i, "heads": heads, "statistics": [{"information": 2.5 - (i - 3) ** 2 / 9}] * len(heads)}
                  for i, heads in enumerate(softmaxed(draw, len(target), len(source), 6, 2))]
        self.send({"source_tokens": source, "target_tokens": target, "layers": layers})

    def completions(self, body):
        if "refuse" in body["prompt"]:
            raise Refused("prompt: expected at most 1024 tokens, found 4000")
        draw, story = random.Random(body.get("seed", 1)), STORY + (HOSTILE.split() if "hostile" in body["prompt"] else [])
        count, events = body.get("max_tokens", 16), []
        count = min(count, 15 if "full" in body["prompt"] else 400)
        for i in range(count):
            token, p = " " + story[i % len(story)], draw.random() ** 0.5
            top = {token: math.log(p)}
            for other in draw.sample([" water", " old", "\n", " the", " had", " of", "<b>"], 4):
                top.setdefault(other, math.log((1 - p) * draw.random() * 0.6 + 1e-6))
            events.append({"id": "c", "object": "text_completion", "choices": [
                {"index": 0, "text": token, "finish_reason": None, "logprobs": {
                    "tokens": [token], "token_logprobs": [math.log(p)], "top_logprobs": [top], "text_offset": [i]}}]})
        events.append({"id": "c", "object": "text_completion", "choices": [
            {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}], "usage": {"completion_tokens": count}})
        self.events(events, self.server.pause / 2)

    def chat(self, body):
        last = body["messages"][-1]["content"]
        if isinstance(last, list):
            images = [part for part in last if part["type"] == "image_url" and part["image_url"]["url"].startswith("data:image/")]
            last = f"{len(images)} images and {last[-1]['text']}"
        if "refuse" in last:
            raise Refused("messages: expected at most 2048 tokens, found 4000")
        said = f"Answer {len(body['messages'])} to <b>{last}</b>."
        if "think" in last:
            said = "<think>\nThe question is short.\n</think>\n\n" + said
        if "code" in last:
            said += " It is **short** and `plain`:\n```js\nconst a = '<b>';\n  go(a); // " + "far " * 40 + "\n```\nThat is all, 2 ** 3 ** 4."
        if "hostile" in last:
            said += "\n" + HOSTILE
        if "long" in last:
            said += " " + " ".join(STORY * 20)
        words = said.split(" ")[:body.get("max_tokens", 10**6)]

        def event(delta, reason=None):
            return {"id": "c", "object": "chat.completion.chunk", "seed": body.get("seed", 77),
                    "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}
        events = [event({"role": "assistant", "content": ""})]
        events += [event({"content": word if i == 0 else " " + word}) for i, word in enumerate(words)]
        events += [event({}, "length" if "max_tokens" in body else "stop"),
                   {"id": "c", "object": "chat.completion.chunk", "choices": [],
                    "usage": {"prompt_tokens": 9, "completion_tokens": len(words), "total_tokens": 9 + len(words)}}]
        self.events(events, self.server.pause / 2)

    def embeddings(self, body):
        def vector(text):
            total = [0.0] * 64
            for word in [""] + text.lower().split():
                draw = random.Random(seed_of(word.strip(".,?!")))
                total = [a + draw.gauss(0, 1) * (1 if word else 1.5) for a in total]
            return total
        self.send({"object": "list", "model": body["model"], "usage": {"prompt_tokens": 9, "total_tokens": 9}, "data": [
            {"object": "embedding", "index": i, "embedding": vector(text)} for i, text in enumerate(body["input"])]})

    def classify(self, body):
        texts = body["text"] if isinstance(body["text"], list) else [body["text"]]
        self.send({"results": [{"error": "text: too long"} if "fail" in text else {"labels": [
            {"label": "POSITIVE", "probability": 0.9312}, {"label": "NEGATIVE", "probability": 0.0683},
            {"label": "MIXED_" + "feelings" * (9 if "hostile" in text else 1), "probability": 0.0005}]} for text in texts]})

    def tag(self, body):
        texts = body["text"] if isinstance(body["text"], list) else [body["text"]]
        names = {"Ada": "B-PER", "Lovelace": "I-PER", "London": "B-LOC", "Babbage": "B-PER", "Charles": "B-PER", "Analytical": "B-MISC",
                 "Engine": "I-MISC", "Royal": "B-ORG", "Society": "I-ORG", "<script>alert(1)</script>": "B-<b>"}
        results = []
        for text in texts:
            tokens, at = [], 0
            for word in text.split():
                begin = text.index(word, at)
                at = begin + len(word)
                bare = word.strip(".,")
                # As tokens: a word of more than eight letters is two, of which the second has another label.
                for part in [bare[:6], bare[6:]] if len(bare) > 8 and bare.isalpha() else [bare]:
                    tokens.append({"text": part, "begin": len(text[:begin].encode()), "end": len((text[:begin] + part).encode()),
                                   "label": names.get(bare, "O") if bare.startswith(part) else "B-MISC", "probability": 0.97})
                    begin += len(part)
            results.append({"tokens": tokens})
        self.send({"results": results})

    def answer(self, body):
        text, words = body["text"], body["text"].split()
        if not body["question"].strip():
            raise Refused("question: expected text, found none")
        answers = []
        for word, probability in zip(dict.fromkeys(words[1::2] or words), (0.81, 0.09, 0.02, 0.004, 0.0003)):
            begin = text.index(word)
            answers.append({"text": word, "begin": len(text[:begin].encode()), "end": len((text[:begin] + word).encode()), "probability": probability})
        self.send({"results": [{"answers": answers}]})

    def fill_mask(self, body):
        texts = body["text"] if isinstance(body["text"], list) else [body["text"]]
        words = [("paris", 0.62), ("lyon", 0.11), ("<b>lille</b>", 0.06), ("marseille", 0.03), ("##ville", 0.0004)]
        self.send({"results": [{"masks": [[{"token": word, "id": i, "probability": p, "text": text.replace("[MASK]", word, 1)}
                                           for i, (word, p) in enumerate(words[:body.get("count", 5)])]
                                          for _ in range(text.count("[MASK]"))]} if "[MASK]" in text else
                               {"error": "text: expected a mask token, found none"} for text in texts]})

    def transcription(self, body):
        language = body.get("language", b"").decode()
        if language == "refuse":
            raise Refused("language: expected one of en, de, fr, found 'refuse'")
        if language == "large":
            return self.error(413, "body: expected at most 8388608 bytes, found more")
        time.sleep({"slow": 3}.get(language, 0.05))
        texts = [" The house by the river is old.", " Nobody lives there --> any more, they say.", " It was sold."]
        texts = {"none": [], "hostile": [" " + HOSTILE] * 2 + [" مرحبا بكم في العالم"], "long": texts * 40}.get(language, texts)
        segments, words, draw = [], [], random.Random(5)
        for i, text in enumerate(texts):
            start, parts = 1.5 * i, [" " + word for word in text.split()]
            segments.append({"id": i, "seek": 0, "start": start, "end": start + 1.5, "text": text, "tokens": [1], "temperature": 0,
                             "avg_logprob": -0.3, "compression_ratio": 1.1, "no_speech_prob": 0.01})
            words += [{"word": word, "start": round(start + 1.4 * k / len(parts), 2), "end": round(start + 1.4 * (k + 1) / len(parts), 2),
                       "probability": draw.random() ** 0.4} for k, word in enumerate(parts)]
        found = {"task": "transcribe", "language": "haitian creole", "duration": 1.5 * len(texts), "text": "".join(texts).strip(),
                 "segments": segments, "usage": {"type": "duration", "seconds": 5}}
        if body.get("timestamp_granularities[]") == b"word":
            found["words"] = words
        self.send(found)

    def image_labels(self, body):
        if not body.get("image"):
            raise Refused("image: expected a file")
        if body["model"] == b"clip-vit-base":
            if not body.get("labels"):
                raise Refused("labels: expected at least one, found none")
            own = [label.strip() for label in body["labels"].decode().split(",")]
            self.send({"results": [{"labels": [{"label": label, "probability": 0.5 ** (i + 1)} for i, label in enumerate(own)]}]})
            return
        self.send({"results": [{"labels": [{"label": label, "probability": p} for label, p in [
            ("tabby, tabby cat", 0.7212), ("tiger cat", 0.183), ("Egyptian cat", 0.0621), ("lynx, catamount", 0.0121),
            ("plastic bag", 0.0004)]]}]})

    def image_attention(self, body):
        draw, rows, columns = random.Random(7), 14, 14

        def blob(x, y, size):
            raw = [math.exp(-((r - y) ** 2 + (c - x) ** 2) / size) + 0.05 * draw.random() for r in range(rows) for c in range(columns)]
            return [w / sum(raw) for w in raw]
        # Of the first token only: the page draws no other.
        self.send({"own_tokens": ["[CLS]"], "patches": {"rows": rows, "columns": columns},
                   "region": {"top": 0, "left": 0.125, "height": 1, "width": 0.75},
                   "rollout": [[[0.1] + blob(8, 6, 14)]], "layers": [
                       {"layer": i, "heads": [[[0.1] + blob(draw.uniform(2, 12), draw.uniform(2, 12), 6)] for _ in range(4)]}
                       for i in range(3)]})


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, port=0, key=None, pause=0.02, models=None):
        super().__init__(("127.0.0.1", port), Handler)
        self.key, self.pause, self.requests, self.polls, self.cut, self.seen = key, pause, 0, 0, 0, []
        self.models = [name for name, _, _ in MODELS] if models is None else models
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_):
        pass

    def start(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--key")
    parser.add_argument("--pause", type=float, default=0.06)
    server = Server(**vars(parser.parse_args()))
    print(server.url)
    server.serve_forever()
