"""Prints the English training sentences of ../shared/data, each a document of its own, for `qkv train pretrain-bert --no-nsp`.

    python bench/plain_sentences.py ../shared/data > sentences.txt

They come from the pairs of semantic similarity, the captions of Multi30k, the tagged sentences of UD English EWT and the
reviews of SST-2. Sentences that are also in the validation files of SST-2 or of the pairs (but for case and punctuation) are
left out. Needs Python alone.
"""

import argparse
import re
import sys
from pathlib import Path


def lines(file):
    return file.read_text(encoding="utf-8").splitlines()


def columns(file, numbers):
    """The texts of these columns, one column after the other."""
    rows = [line.split("\t") for line in lines(file)]
    return [row[number] for number in numbers for row in rows]


def reviews(file):
    """Lines of `LABEL TEXT`."""
    return [line.split(" ", 1)[1] for line in lines(file)]


def tagged(file):
    """The words of each sentence, from lines of `WORD<TAB>TAG`."""
    sentence = []
    for line in [*lines(file), ""]:
        if line:
            sentence.append(line.split("\t")[0])
        elif sentence:
            yield " ".join(sentence)
            sentence = []


def bare(text):
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder that has sst2/, sts/, multi30k/ and ud_ewt/")
    data = parser.parse_args().data
    for file in ("sts/train.tsv", "sts/dev.tsv", "multi30k/train.en", "ud_ewt/train.conll", "sst2/stsa.binary.train",
                 "sst2/stsa.binary.dev"):
        if not (data / file).is_file():
            parser.error(f"{data}: expected a folder with {file}, found none")
    held_out = {bare(text) for text in columns(data / "sts/dev.tsv", [1, 2]) + reviews(data / "sst2/stsa.binary.dev")}
    sentences = [*columns(data / "sts/train.tsv", [1, 2]), *lines(data / "multi30k/train.en"),
                 *tagged(data / "ud_ewt/train.conll"), *reviews(data / "sst2/stsa.binary.train")]
    kept = [text for text in map(str.strip, sentences) if text and bare(text) not in held_out]
    sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write("".join(f"{text}\n\n" for text in kept))
    print(f"{len(kept)} sentences; {len(sentences) - len(kept)} are empty or in the validation files", file=sys.stderr)


if __name__ == "__main__":
    main()
