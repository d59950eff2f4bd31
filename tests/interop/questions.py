"""Generated questions about who lives where and works as what, for training and comparisons: no published set is at hand.

    python tests/interop/questions.py COUNT SEED > questions.jsonl
"""

import json
import random
import sys

NAMES = "Ada Ben Cora Dan Eva Finn Gina Hugo Ida Jon Kira Leo Mia Noah Olga Paul".split()
TOWNS = "Berlin Paris Rome Oslo Bonn Lima Kyoto Delhi Cairo Quito Accra Minsk".split()
PROFESSIONS = "a baker|a doctor|an old teacher|the tall pilot|a farmer|a famous singer".split("|")


def questions(texts, seed):
    """Four questions about each text, one of them without an answer, as `datasets` has SQuAD 2.0."""
    draw, result = random.Random(seed), []
    for _ in range(texts):
        names, towns, professions = draw.sample(NAMES, 3), draw.sample(TOWNS, 3), draw.sample(PROFESSIONS, 3)
        context = " ".join(f"{n} lives in {t}, and works as {p}." for n, t, p in zip(names, towns, professions))
        for n, t, p in zip(names, towns, professions):
            question, answer = draw.choice([(f"Where does {n} live?", t), (f"What is {n}?", p), (f"Who lives in {t}?", n)])
            result.append({"question": question, "context": context, "answers": {"text": [answer], "answer_start": [context.index(answer)]}})
        nobody = draw.choice([name for name in NAMES if name not in names])
        result.append({"question": f"Where does {nobody} live?", "context": context, "answers": {"text": [], "answer_start": []}})
    return result


if __name__ == "__main__":
    for one in questions(int(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps(one))
