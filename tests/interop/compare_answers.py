"""Compares `qkv answer` with the question-answering pipeline of transformers, which has one until version 4.

    python tests/interop/compare_answers.py --qkv build/release/bin/qkv FOLDER

FOLDER: a model of `qkv train answer` with the questions of questions.py. Asks 100 other ones three times: with and without the answer
none, and in windows. Prints how many answers differ, and the largest difference of a probability among equal ones; of answers in
several windows, whose scores the pipeline adds, none is compared.
"""

import argparse
import json
import subprocess

import transformers
from questions import questions

HOW = {"plain": ([], {}),
       "unanswerable": (["--unanswerable"], {"handle_impossible_answer": True}),
       "windows": (["--window", "24", "--shared", "4"], {"max_seq_len": 24, "doc_stride": 4})}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", default="build/release/bin/qkv")
    parser.add_argument("folder")
    arguments = parser.parse_args()
    answer = transformers.pipeline("question-answering", model=arguments.folder, device="cpu")
    asked = questions(25, seed=99)
    for name, (options, keywords) in HOW.items():
        different, worst = [], 0
        for one in asked:
            command = [arguments.qkv, "answer", arguments.folder, "--question", one["question"], "--json", *options, one["context"]]
            found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["answers"][0]
            expected = answer(question=one["question"], context=one["context"], **keywords)
            if found["text"] != expected["answer"]:
                different.append((found["probability"], expected["score"]))
            elif name != "windows":
                worst = max(worst, abs(found["probability"] - expected["score"]))
        print(json.dumps({"how": name, "questions": len(asked), "different": len(different), "largest difference": worst,
                          "likeliest different": max((max(pair) for pair in different), default=0)}))


if __name__ == "__main__":
    main()
