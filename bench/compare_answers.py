"""`qkv answer` beside the question-answering pipeline of transformers (until version 4), with random weights of BERT-base's size.

    python bench/compare_answers.py --qkv build/release/bin/qkv FOLDER

FOLDER: a BERT folder, for its tokenizer. A question is asked of 64 texts, of up to 10 sentences or of 8 each; the program's time
includes its start, the pipeline's does not. Prints a JSON line a round: seconds, and the ratio for batches of 1 and 8 texts.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import transformers

from measured import folder_arguments

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "interop"))
from questions import questions  # noqa: E402


def texts(sentences):
    contexts = [one["context"] for one in questions(20, seed=0)]
    return [" ".join(random.Random(i).sample(contexts, sentences(random.Random(i)))) for i in range(64)]


def main():
    arguments = folder_arguments(__doc__)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    question = "Where does Ada live?"
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.folder)
        transformers.BertForQuestionAnswering(transformers.BertConfig(vocab_size=len(tokenizer))).save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        answer = transformers.pipeline("question-answering", model=scratch, device="cpu")
        for name, contexts in (("mixed", texts(lambda draw: draw.randint(1, 10))), ("equal", texts(lambda draw: 8))):
            for _ in range(arguments.rounds):
                seconds = {}
                for batch in (1, 8):
                    begin = time.perf_counter()
                    answer(question=[question] * len(contexts), context=contexts, batch_size=batch)
                    seconds[batch] = time.perf_counter() - begin
                begin = time.perf_counter()
                subprocess.run([arguments.qkv, "answer", scratch, "--question", question], input="\n".join(contexts) + "\n", text=True,
                               stdout=subprocess.DEVNULL, check=True)
                own = time.perf_counter() - begin
                print(json.dumps({"texts": name, "qkv": round(own, 2), **{f"batches of {batch}": round(one / own, 2)
                                                                       for batch, one in seconds.items()}}), flush=True)


if __name__ == "__main__":
    main()
