"""Next-sentence prediction by word overlap alone: the accuracy that a pretrained BERT has to beat.

    python bench/next_sentence_overlap.py --tokenizer bert/tokenizer.json --text valid.txt --statistics train.txt --length 128

Needs PyPI's tokenizers. The pairs are made as qkv makes them (docs/training.md): sentences up to LENGTH tokens, divided at random after
one of them, or with --halves in the middle; the second segment is the rest, or, with probability 0.5, begins at a random sentence of another document. A pair
"follows" if the overlap of its two sets of words exceeds a threshold. The threshold is the best for these pairs, so the accuracies are
upper bounds. Overlaps: the number of common words, as a share of the smaller set, and weighted by how rare the words are in the
documents of the second text.
"""

import argparse
import math
import random
import re
from collections import Counter
from pathlib import Path

from tokenizers import Tokenizer

SPECIAL = 3  # [CLS] A [SEP] B [SEP]


def documents_of(path):
    texts = Path(path).read_text(encoding="utf-8").split("\n\n")
    return [lines for lines in ([line for line in text.splitlines() if line.strip()] for text in texts) if lines]


def pairs_of(documents, capacity, draw, halves):
    """Lists of token ids: first, second, and whether the second follows."""
    for number, sentences in enumerate(documents):
        begin = 0
        while begin < len(sentences):
            target = draw.randint(2, capacity) if draw.random() < 0.1 else capacity
            end = begin + 1
            while end < len(sentences) and (end - begin < 2 or sum(map(len, sentences[begin:end])) < target):
                end += 1
            if end - begin < 2:
                middle = end
            elif halves:
                middle = begin + 1
                while middle + 1 < end and 2 * sum(map(len, sentences[begin:middle])) < target:
                    middle += 1
            else:
                middle = begin + draw.randint(1, end - begin - 1)
            first = sum(sentences[begin:middle], [])
            follows = middle < end and draw.random() < 0.5
            if follows:
                second, begin = sum(sentences[middle:end], []), end
            else:
                other = documents[draw.choice([i for i in range(len(documents)) if i != number])]
                at, second = draw.randrange(len(other)), []
                while at < len(other) and (not second or len(second) < target - len(first)):
                    second, at = second + other[at], at + 1
                begin = middle
            while len(first) + len(second) > capacity:
                longer = first if len(first) > len(second) else second
                longer.pop(0 if draw.random() < 0.5 else -1)
            yield first, second, follows


def best_accuracy(scores, follows):
    """Of the best threshold: those above it follow."""
    right = best = sum(1 for one in follows if not one)  # no pair follows
    ordered = sorted(zip(scores, follows), reverse=True)
    for i, (score, one) in enumerate(ordered):
        right += 1 if one else -1
        if i + 1 == len(ordered) or ordered[i + 1][0] != score:
            best = max(best, right)
    return best / len(ordered)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="tokenizer.json of the model")
    parser.add_argument("--text", required=True, help="held-out text: a sentence per line, a blank line between documents")
    parser.add_argument("--statistics", required=True, help="text in which the documents with a word are counted")
    parser.add_argument("--length", type=int, nargs="+", default=[128], help="tokens of an input (default: 128)")
    parser.add_argument("--halves", action="store_true", help="divide pairs in the middle")
    parser.add_argument("--repeat", type=int, default=5, help="drawings of the pairs (default: %(default)s)")
    a = parser.parse_args()

    tokenizer = Tokenizer.from_file(a.tokenizer)
    tokenizer.no_padding()

    def encoded(text):
        return [[one.ids for one in tokenizer.encode_batch(lines, add_special_tokens=False)] for lines in documents_of(text)]

    documents, counted = encoded(a.text), encoded(a.statistics)
    occurs = Counter(word for document in counted
                     for word in set(re.findall(r"\w+", tokenizer.decode([id for ids in document for id in ids]))))
    rarity = {word: math.log(len(counted) / count) for word, count in occurs.items()}

    def words(ids):
        return set(re.findall(r"\w+", tokenizer.decode(ids)))

    print("| tokens | words per pair | pairs | common words | share of the smaller set | weighted by rarity |\n" + "| --- " * 6 + "|")
    for length in a.length:
        draw, follows, scores, total = random.Random(1), [], ([], [], []), 0
        for _ in range(a.repeat):
            for first, second, one in pairs_of(documents, length - SPECIAL, draw, a.halves):
                left, right = words(first), words(second)
                common = left & right
                follows.append(one)
                total += len(re.findall(r"\w+", tokenizer.decode(first) + " " + tokenizer.decode(second)))
                scores[0].append(len(common))
                scores[1].append(len(common) / max(1, min(len(left), len(right))))
                scores[2].append(sum(rarity.get(word, math.log(len(counted))) for word in common))
        found = [best_accuracy(score, follows) for score in scores]
        print(f"| {length} | {total / len(follows):.0f} | {len(follows)} | " + " | ".join(f"{one:.3f}" for one in found) + " |")


if __name__ == "__main__":
    main()
