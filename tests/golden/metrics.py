"""Writes tests/metrics/golden/*.tsv: results of sacreBLEU (2.6) and Python, with which tests/metrics compares qkv::metrics.

Run from the repository root, with sacrebleu installed. Fields are separated by tabs; backslashes and non-printable characters
are written as \\xHH for each byte of their UTF-8.
"""

import random
import re
import string
from collections import Counter
from pathlib import Path

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

assert sacrebleu.__version__.startswith("2.6"), sacrebleu.__version__
FOLDER = Path("tests/metrics/golden")
rng = random.Random(20261121)


def escape(text):
    return "".join(c if c.isprintable() and c != "\\" else "".join(f"\\x{b:02x}" for b in c.encode()) for c in text)


def write(name, rows):
    with open(FOLDER / name, "w", encoding="utf-8", newline="\n") as out:
        for row in rows:
            out.write("\t".join(row) + "\n")


PAIRS = [  # hypothesis, reference
    ("The cat sat on the mat.", "The cat is sitting on the mat."),
    ("A man in an orange hat staring at something.", "A man in an orange hat is staring at something."),
    ("Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
     "Ein Mann mit einem orangen Hut, der etwas anstarrt."),
    ("Fünf Leute in Winterjacken und mit Helmen stehen im Schnee.",
     "Fünf Personen in Winterjacken und mit Helmen stehen im Schnee, mit Schneemobilen im Hintergrund."),
    ("It costs 1,000.5 dollars (about 3.14% more), i.e. $1,000.50!", "It costs $1,000.5 (about 3.14 % more), i.e. 1000.50!"),
    ("On 2019-05-11 at 10:30, 5-year-old dogs and 3-4 cats ran.", "On 2019-05-11, at 10:30, five-year-old dogs ran 3-4 miles."),
    ("He said: &quot;Tom &amp; Jerry&quot; &lt;b&gt; &amp;lt; &nbsp;", "He said: \"Tom & Jerry\" <b> < &nbsp;"),
    ("<skipped>Nothing was skipped.", "Nothing <skipped> was <skip> skipped."),
    ("don't can't 'quoted' \"double\" „deutsch“ «français» ‚einfach‘", "do not can't 'quoted' \"doubled\" „Deutsch“ «français»"),
    ("well-known state-of-the-art - dash – en — em", "well known state-of-the-art – dash — em"),
    ("wait... what?! no,no.yes 1.2.3.4 .5 5. ,6 6,", "wait ... what ?! no, no. yes 1.2.3.4 0.5 5 . , 6 6 ,"),
    ("no\u00a0break\u2003em\u3000wide\u2028line\u205fmath\u200bzero", "no break em wide line\u00a0math zero"),
    ("I ❤ 👍🏽 and 👨‍👩‍👧 families 🎉!", "I love 👍🏽 and 👨‍👩‍👧 family 🎉 !"),
    ("", "An empty hypothesis has a reference."),
    ("A reference that is empty.", ""),
    ("", ""),
    ("Yes", "Yes"),
    ("No.", "Yes."),
    ("Two words", "two words"),
    ("我喜欢学习机器翻译。", "我爱学习机器翻译。"),
    ("今日は天気がいいですね。", "今日はいい天気ですね。"),
    ("Привет, как дела?", "Привет! Как твои дела?"),
    ("ΟΔΥΣΣΕΥΣ και ΣΟΦΟΣ Σ ΑΣ.", "οδυσσευς ΚΑΙ σοφος σ ας."),
    ("İstanbul STRASSE Straße ẞ ǅ", "istanbul strasse STRASSE ß ǆ"),
    ("the the the the the", "the cat the"),
    ("tab\tand  double   spaces   ", "  tab and double spaces"),
    ("a/b@c.de [x] {y} (z) ~w `v` #1 5% a+b=c a_b ^ |", "a / b@c.de [x] {y} (z) ~ w `v` # 1 5 % a + b = c a_b ^ |"),
    ("e\u0301 decomposed café", "é decomposed cafe\u0301"),
    ("line-\nbreak and\nmore-\n", "linebreak and more-"),
    ("٣.٥ and ५,६ and 3.٥", "٣ . ٥ and ५ , ६ and 3. ٥"),
]

WORDS = """the a of and in on with two three man woman dog cat child runs sits looks plays red blue green , . ! - 1,000 3.5
U.S. it's über Straße großer kleiner Hund läuft schnell "quoted" (in) well-known 2010-12 &amp; 猫 犬 x""".split()


def perturbed(words):
    words = list(words)
    for _ in range(rng.randrange(0, 5)):
        if not words:
            break
        i = rng.randrange(len(words))
        what = rng.random()
        if what < 0.35:
            words[i] = rng.choice(WORDS)
        elif what < 0.6:
            del words[i]
        elif what < 0.8:
            words.insert(i, rng.choice(WORDS))
        else:
            j = rng.randrange(len(words))
            words[i], words[j] = words[j], words[i]
    return words


def random_corpus(size, references):
    rows = []
    for _ in range(size):
        truth = [rng.choice(WORDS) for _ in range(rng.randrange(1, 25))]
        rows.append([" ".join(perturbed(truth)) for _ in range(references + 1)])
    return rows


def hyp_of(rows):
    return [row[0] for row in rows]


def refs_of(rows):
    return [list(column) for column in zip(*[row[1:] for row in rows])]


CORPORA = {
    "pairs": PAIRS,
    "random": random_corpus(150, 1),
    "three_references": random_corpus(40, 3),
    "swapped": [(r, h) for h, r in PAIRS],
    "identical": [(r, r) for _, r in PAIRS],
    "all_hypotheses_empty": [("", "one"), (" ", "two words")],
    "everything_empty": [("", ""), ("\t", " ")],
    "nothing_matches": [("aa bb cc dd", "ee ff gg hh ii")],
    "unigrams_only": [("aa xx bb yy cc zz", "zz cc bb aa qq rr ss")],
    "short": [("Yes", "Yes"), ("No way", "No way"), ("a b c", "a b d")],
    "three_tokens": [("one two three", "one two three")],
    "equally_near_references": [("a b c d e", "a b c d e f", "a b c d")],
}
for i, pair in enumerate(PAIRS):
    CORPORA[f"pair_{i}"] = [pair]

FOLDER.mkdir(parents=True, exist_ok=True)
write("corpora.tsv", ([name] + [escape(field) for field in row] for name, rows in CORPORA.items() for row in rows))

# Name, options, results (with exact doubles), and the line that sacreBLEU prints.
BLEU_OPTIONS = [dict(), dict(lowercase=True), dict(tokenize="none"), dict(smooth_method="none"),
                dict(effective_order=True), dict(max_ngram_order=2), dict(max_ngram_order=6, lowercase=True)]
rows = []
for name, corpus in CORPORA.items():
    for options in BLEU_OPTIONS if not name.startswith("pair_") else BLEU_OPTIONS[:5:4]:
        bleu = BLEU(**options)
        result = bleu.corpus_score(hyp_of(corpus), refs_of(corpus))
        rows.append([name, options.get("tokenize", "13a"), options.get("smooth_method", "exp"),
                     str(int(bleu.lowercase)), str(int(bleu.effective_order)), str(bleu.max_ngram_order),
                     repr(float(result.score)), " ".join(repr(float(p)) for p in result.precisions),
                     repr(float(result.bp)), str(result.sys_len), str(result.ref_len),
                     " ".join(map(str, result.counts)), " ".join(map(str, result.totals)),
                     result.format(signature=bleu.get_signature().format())])
write("bleu.tsv", rows)

CHRF_OPTIONS = [dict(), dict(word_order=2), dict(lowercase=True), dict(whitespace=True), dict(eps_smoothing=True),
                dict(char_order=3, word_order=1, beta=3), dict(char_order=0, word_order=2)]
rows = []
for name, corpus in CORPORA.items():
    for options in CHRF_OPTIONS if not name.startswith("pair_") else CHRF_OPTIONS[:2]:
        chrf = CHRF(**options)
        result = chrf.corpus_score(hyp_of(corpus), refs_of(corpus))
        rows.append([name, str(chrf.char_order), str(chrf.word_order), str(chrf.beta), str(int(chrf.lowercase)),
                     str(int(chrf.whitespace)), str(int(chrf.eps_smoothing)), repr(float(result.score)),
                     result.format(signature=chrf.get_signature().format())])
write("chrf.tsv", rows)

# Lines and their 13a tokens, separated by single spaces: the sentences, and random strings of the characters that matter.
PIECES = list("aZ09..,,--'\"&/~ \n\t!:;<>()[]{}\\^_`|@#$%*+=?") + ["é", "中", "🎉", "٣", "\u00a0", "\u3000", "\x1c", "\x85",
         "\u200b", "-\n", "&quot;", "&amp;", "&lt;", "&gt;", "<skipped>", "1,0", "3.5", "...", "lt;"]
lines = [side for pair in PAIRS for side in pair]
lines += ["".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 30))) for _ in range(400)]
tokenizer = Tokenizer13a()
write("tokenize_13a.tsv", ([escape(line), escape(tokenizer(line))] for line in lines))

# Invalid UTF-8, and Python's decoding.
BROKEN = [b"\xff", b"a\x80b", b"\xc3", b"\xc3(", b"\xe4\xb8", b"\xe4\xb8x", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xc0\xaf",
          b"\xe0\x80\xaf", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98\x80\xf0\x9f", b"\xf8\x88\x80\x80\x80", b"ok \xe9t\xe9"]
LEADS = bytes([0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5])
BROKEN += [bytes(rng.choice(LEADS) for _ in range(12)) for _ in range(100)]
write("utf8.tsv", (["".join(f"\\x{b:02x}" for b in data), escape(data.decode("utf-8", "replace"))] for data in BROKEN))

# Lower case: some text, and a checksum (FNV-1a over code points) of every code point's lower case.
LOWER = [side for pair in PAIRS for side in pair] + ["ΑΣ", "ΑΣΑ", "Σ", "ΑΣ.", "ΑΣ'Α", "Α\u0301Σ", "ΑΣ\u0301 Β", "1Σ", "AΣ", "ЖΣ"]
write("lowercase.tsv", ([escape(text), escape(text.lower())] for text in LOWER))
checksum = 0xCBF29CE484222325
spaces = []
for code in range(0x110000):
    if 0xD800 <= code < 0xE000:
        continue
    for c in chr(code).lower():
        checksum = ((checksum ^ ord(c)) * 0x100000001B3) % 2**64
    if chr(code).isspace():
        spaces.append(str(code))
write("unicode.tsv", [["lowercase_checksum", str(checksum)], ["spaces", " ".join(spaces)]])

# Answers, their right ones, and the scores of SQuAD's definition: lower case, no ASCII punctuation, no articles, single spaces.
def normalized(answer):
    without = "".join(c for c in answer.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", without).split())


def answer_f1(answer, right):
    found, wanted = normalized(answer).split(), normalized(right).split()
    if not found or not wanted:
        return float(found == wanted)
    shared = sum((Counter(found) & Counter(wanted)).values())
    precision, recall = shared / len(found), shared / len(wanted)
    return 2 * precision * recall / (precision + recall) if shared else 0.0


ANSWERS = [("Berlin", ["Berlin"]), ("the Berlin.", ["berlin"]), ("in Berlin", ["Berlin", "in the city of Berlin"]), ("", []), ("Berlin", []),
           ("", ["Berlin"]), ("The", ["a"]), ("a the", ["!"]), ("an-other day", ["another day"]), ("the-end", ["end"]),
           ("Ein \u00c4pfel", ["\u00e4pfel"]), ("\u201cthe\u201d house", ["\u201c\u201d house"]), ("a\u0301 cat", ["\u0301 cat"]),
           ("1,000 dollars", ["1000 dollars", "$1,000"]), ("one two two three", ["two two four", "three"]), ("x\u00a0y", ["x y"]), ("a1 b", ["1 b"])]
WORDS = ["a", "an", "the", "The", "cat", "Cat.", "dog's", "U.S.", "\u00c9t\u00e9", "2,5", "\u4e2d", "_the_", "the\u00b2", "\u3000", "--"]
ANSWERS += [(" ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 6))),
             [" ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 6))) for _ in range(rng.randrange(1, 4))]) for _ in range(150)]
rows = []
for answer, right in ANSWERS:
    wanted = [one for one in right if normalized(one)] or [""]
    rows.append([escape(answer), escape(normalized(answer)), str(int(any(normalized(answer) == normalized(one) for one in wanted))),
                 repr(max(answer_f1(answer, one) for one in wanted)), *map(escape, right)])
write("answers.tsv", rows)
