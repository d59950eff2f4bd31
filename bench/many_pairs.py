#!/usr/bin/env python3
"""Writes a large parallel corpus to measure the start of a training run.

    bench/many_pairs.py SOURCE TARGET PAIRS OUT    # writes OUT.src and OUT.tgt

Repeats the pairs of two small files. In each repetition but the first, one word in ten of either side is replaced by an invented
one, whose frequencies follow Zipf's law, so that distinct words grow with the text as in natural corpora (Heaps' law).
"""

import random
import sys

SYLLABLES = [a + b for a in "b br d f g gr h k kl l m n p pl r s st t tr v w z".split() for b in "a e i o u an en ol".split()]


def invented(rank: int) -> str:
    word = ""
    rank += 1
    while rank > 0:
        word += SYLLABLES[rank % len(SYLLABLES)]
        rank //= len(SYLLABLES)
    return word


def main() -> None:
    source, target, pairs, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    draw = random.Random(1)
    with open(source, encoding="utf-8") as left, open(target, encoding="utf-8") as right:
        lines = list(zip(left.read().splitlines(), right.read().splitlines()))
    with open(out + ".src", "w", encoding="utf-8") as left, open(out + ".tgt", "w", encoding="utf-8") as right:
        for i in range(pairs):
            for line, file in zip(lines[i % len(lines)], (left, right)):
                if i >= len(lines):
                    words = line.split(" ")
                    for at in range(len(words)):
                        if draw.random() < 0.1:
                            words[at] = invented(int(1e7 ** draw.random()))
                    line = " ".join(words)
                file.write(line + "\n")


if __name__ == "__main__":
    main()
