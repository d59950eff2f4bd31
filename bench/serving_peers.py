"""The peers of compare_serving.py, one of these servers:

    python bench/serving_peers.py ctranslate2 MARIAN_FOLDER --port 8081
    python bench/serving_peers.py sentence-transformers FOLDER --port 8081
    python bench/serving_peers.py llama.cpp FILE.gguf --port 8081

Needs ctranslate2, transformers, torch, sentencepiece; sentence-transformers; or xllamacpp; and uvicorn[standard] from PyPI.
The first two answer GET /ready and the request of qkv that compare_serving.py sends: POST /v1/translate {"text", "beam"} or
POST /v1/embeddings {"input"}, behind uvicorn (bare ASGI, uvloop, httptools: no framework's time is measured). Dynamic batching: when
a worker is free, the requests that wait, up to --batch, are computed as one batch; nothing waits for a fuller one. llama.cpp has a
server of its own, with --slots slots.
"""

import argparse
import asyncio
import json
import os
import tempfile
from pathlib import Path


class CTranslate2:
    path = "/v1/translate"

    def __init__(self, folder, threads, compute_type):
        import ctranslate2
        import sentencepiece
        from compare_ctranslate2 import with_zero_start
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder) / "source.spm"))
        self.joiner = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder) / "target.spm"))
        with tempfile.TemporaryDirectory() as scratch:
            with_zero_start(folder, Path(scratch) / "marian")
            converted = str(Path(scratch) / "ctranslate2")
            ctranslate2.converters.TransformersConverter(str(Path(scratch) / "marian")).convert(converted)
            # A sentence a thread: two threads for one take eight times as long here as one (OpenMP's barriers).
            self.translator = ctranslate2.Translator(converted, device="cpu", inter_threads=threads, intra_threads=1,
                                                     compute_type=compute_type)
        self.workers = threads

    def answers(self, requests):
        """All requests have the same beam, as in compare_serving.py."""
        tokens = [self.pieces.encode(one["text"], out_type=str) + ["</s>"] for one in requests]
        results = self.translator.translate_batch(tokens, beam_size=requests[0]["beam"], length_penalty=0.6, max_decoding_length=256)
        return [{"translations": [{"translation": self.joiner.decode(one.hypotheses[0])}]} for one in results]


class SentenceTransformers:
    path = "/v1/embeddings"

    def __init__(self, folder, threads):
        import torch
        from sentence_transformers import SentenceTransformer
        torch.set_num_threads(threads)
        self.model = SentenceTransformer(folder, device="cpu")
        self.workers = 1

    def answers(self, requests):
        vectors = self.model.encode([one["input"] for one in requests], batch_size=len(requests), show_progress_bar=False)
        return [{"data": [{"embedding": vector.tolist()}]} for vector in vectors]


class Batches:
    """Requests that wait are computed together: idle workers, a thread each, share them equally."""

    def __init__(self, model, most):
        self.model, self.most = model, most
        self.waiting, self.idle = [], model.workers
        self.arrived = asyncio.Event()
        self.tasks = [asyncio.create_task(self.run()) for _ in range(model.workers)]

    async def answer(self, request):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((request, future))
        self.arrived.set()
        return await future

    async def run(self):
        loop = asyncio.get_running_loop()
        while True:
            await self.arrived.wait()
            if not self.waiting:
                continue
            size = min(self.most, -(-len(self.waiting) // self.idle))
            batch, self.waiting = self.waiting[:size], self.waiting[size:]
            if not self.waiting:
                self.arrived.clear()
            self.idle -= 1
            answers = await loop.run_in_executor(None, self.model.answers, [request for request, _ in batch])
            self.idle += 1
            for (_, future), answer in zip(batch, answers):
                future.set_result(answer)


def application(model, most):
    batches = None

    async def app(scope, receive, send):
        nonlocal batches
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                if message["type"] == "lifespan.startup":
                    batches = Batches(model, most)
                await send({"type": message["type"] + ".complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        body = b""
        while scope["method"] == "POST":
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        answer = b"{}" if scope["path"] == "/ready" else json.dumps(await batches.answer(json.loads(body))).encode()
        await send({"type": "http.response.start", "status": 200,
                    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]})
        await send({"type": "http.response.body", "body": answer})

    return app


def serve_llama(args):
    import signal
    import xllamacpp
    options = xllamacpp.CommonParams()
    options.model.path, options.port = args.folder, args.port  # 127.0.0.1 is the default
    options.n_parallel, options.n_ctx = args.slots, 1024 * args.slots
    options.warmup, options.fit_params = True, False
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = args.threads
    server = xllamacpp.Server(options)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    os._exit(0 if server else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=["ctranslate2", "sentence-transformers", "llama.cpp"])
    parser.add_argument("folder")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compute-type", default="float32", help="CTranslate2's")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--slots", type=int, default=8)
    args = parser.parse_args()
    if args.peer == "llama.cpp":
        return serve_llama(args)
    os.environ["OMP_NUM_THREADS"] = str(1 if args.peer == "ctranslate2" else args.threads)
    import uvicorn
    if args.peer == "ctranslate2":
        model = CTranslate2(args.folder, args.threads, args.compute_type)
    else:
        model = SentenceTransformers(args.folder, args.threads)
    model.answers([{"text": "a", "input": "a", "beam": 1}])
    uvicorn.run(application(model, args.batch), host="127.0.0.1", port=args.port, loop="uvloop", http="httptools", log_level="warning",
                access_log=False)


if __name__ == "__main__":
    main()
