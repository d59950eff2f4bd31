#!/usr/bin/env python3
"""Draws docs/pictures/speed-light.svg and speed-dark.svg from the tables of performance.md and serving.md, where each ratio
has its home. With --check it fails unless the files are those that it would draw."""

import math
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SPEED, SERVING = "performance.md", "serving.md"

# (work, peer, document, section, the row: {column: cell}, the column of the ratio: a header or its index)
GROUPS = {
    "Training": [
        ("Fine-tuning MiniLM to label texts", "PyTorch", SPEED, "Training", {0: "`classify --from all-MiniLM-L6-v2`"}, "ratio"),
        ("A translation model", "PyTorch", SPEED, "Training", {0: "`translation --preset small`, one round"}, "ratio"),
        ("A ViT on images", "PyTorch", SPEED, "Training", {0: "`image --preset mini`"}, "ratio"),
        ("BERT, 4 layers of 256", "PyTorch", SPEED, "Training", {0: "`pretrain-bert --preset mini`"}, "ratio"),
        ("A language model of characters", "PyTorch", SPEED, "Training", {0: "`lm --preset characters`", 1: "Zen 4"}, "ratio"),
        ("BERT-base", "PyTorch", SPEED, "Training", {0: "`pretrain-bert --preset base`, one round", 1: "Zen 4"}, "ratio"),
    ],
    "Running": [
        ("Text vectors, BERT-base", "PyTorch", SPEED, "Encoders", {0: "Zen 4, 2026-11-22", 1: "f32"}, 4),
        ("Text vectors, BERT-base", "ONNX Runtime", SPEED, "Encoders", {0: "Zen 4, 2026-11-22", 1: "f32"}, 3),
        ("One text alone, Zen 3", "ONNX Runtime", SPEED, "Encoders", {0: "Zen 3, 2026-11-26", 1: "f32"}, 6),
        ("Translation, 46 million parameters", "CTranslate2", SPEED, "Translation", {0: "f32", 1: "2", 2: "batched"}, 4),
        ("Translation, 5 million, int8, one thread", "CTranslate2", SPEED, "Translation", {0: "int8", 1: "1", 2: "batched"}, 5),
        ("SmolLM2 in 4 bits (Q4_1), Zen 4", "llama.cpp", SPEED, "Generation", {"file, Zen 4": "SmolLM2, Q4_1"}, "ratio, one text"),
        ("SmolLM2 in 8 bits (Q8_0), Zen 4", "llama.cpp", SPEED, "Generation", {"file, Zen 4": "SmolLM2, Q8_0"}, "ratio, one text"),
        ("GPT-2, int8", "llama.cpp", SPEED, "Generation", {0: "GPT-2 small, random, Zen 4, 2026-11-22", 1: "int8"}, 3),
        ("Tokenizing for BERT", "tokenizers", SPEED, "Tokenizers", {0: "`bert_uncased`"}, 2),
    ],
    "Serving": [
        ("Text vectors, 16 clients, Intel", "sentence-transformers", SERVING, "Sentence embeddings", {0: "16"}, "sentence-transformers"),
        ("8 streams of SmolLM2, int8, Zen 3", "llama.cpp", SERVING, "Streams of a language model",
         {0: "Zen 3, 2026-11-26", 1: "int8", 2: "8"}, 6),
        ("Translations, 16 clients, Intel", "CTranslate2", SERVING, "Translation", {0: "Sapphire Rapids, 2026-11-23", 1: "f32", 2: "16"}, 6),
    ],
}

THEMES = {
    "light": {"paper": "#ffffff", "ink": "#1b1f27", "quiet": "#5d6675", "line": "#d8dee7", "one": "#8b95a5", "faster": "#2f6fde", "slower": "#d9691e"},
    "dark": {"paper": "#0d1117", "ink": "#e6edf3", "quiet": "#9aa4b2", "line": "#272e39", "one": "#6b7685", "faster": "#4a8df0", "slower": "#e0842b"},
}


def tables(document, section):
    """The tables of a section: lists of rows, of which the first is the header. An empty cell at the beginning of a row repeats
    the one above it."""
    lines = (FOLDER.parent / document).read_text(encoding="utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if re.fullmatch(rf"#+ {re.escape(section)}", line))
    found, table = [], None
    for line in lines[begin + 1 :]:
        if line.startswith("#"):
            break
        if not line.startswith("|"):
            table = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if table is None:
            table = []
            found.append(table)
        elif all(re.fullmatch("-+", cell) for cell in cells):
            continue
        else:
            for i, cell in enumerate(cells):
                if cell:
                    break
                cells[i] = table[-1][i]
        table.append(cells)
    return found


def ratio(document, section, row, column):
    def index(header, name):
        return name if isinstance(name, int) else header.index(name) if name in header else None

    found = []
    for header, *rows in tables(document, section):
        if None in (index(header, name) for name in (*row, column)):
            continue
        found += [r[index(header, column)] for r in rows if all(r[index(header, name)] == cell for name, cell in row.items())]
    if len(found) != 1 or not (number := re.match(r"\**(\d+\.\d+)", found[0])):
        sys.exit(f"{document}, {section}: expected one ratio in column {column} of row {row}, found {found}")
    return number[1]


WIDTH, ROW, LABELS, PEERS, LEFT, RIGHT = 880, 25, 24, 404, 446, 832
LEAST, MOST = 0.7, 4.6


def draw(theme):
    colours = THEMES[theme]

    def x(value):
        return round(LEFT + (RIGHT - LEFT) * math.log(value / LEAST) / math.log(MOST / LEAST), 1)

    def text(at, y, what, size=14, fill="ink", extra=""):
        return f'<text x="{at}" y="{y}" font-size="{size}" fill="{colours[fill]}"{extra}>{what}</text>\n'

    end, middle, strong = ' text-anchor="end"', ' text-anchor="middle"', ' font-weight="600"'
    top = 102
    body, y = "", top
    for group, rows in GROUPS.items():
        y += 30
        body += text(LABELS, y, group, 14, "ink", strong)
        y += 8
        for work, peer, *source in rows:
            shown = ratio(*source)
            value = float(shown)
            if not LEAST < value < MOST:
                sys.exit(f"{work}: expected a ratio of {LEAST} to {MOST}, the range of the axis, found {value}")
            faster = value >= 1
            begin, finish = sorted((x(1), x(value)))
            body += text(LABELS, y + 17, work) + text(PEERS, y + 17, peer, 13, "quiet", end)
            body += (f'<rect x="{begin}" y="{y + 5}" width="{max(finish - begin, 1):.1f}" height="{ROW - 9}" rx="2" '
                     f'fill="{colours["faster" if faster else "slower"]}"/>\n')
            over = f' paint-order="stroke" stroke="{colours["paper"]}" stroke-width="5"'  # the grid ends before a number
            body += text(finish + 7 if faster else begin - 7, y + 17.5, shown, 13, "ink", over + ("" if faster else end))
            y += ROW
    bottom = y + 8
    grid = ""
    for value in (0.75, 1, 1.5, 2, 3, 4):
        at = x(value)
        grid += f'<path d="M{at} {top}V{bottom}" stroke="{colours["one" if value == 1 else "line"]}"/>\n'
        grid += text(at, top - 8, "equal" if value == 1 else f"{value:g}×", 12, "quiet", middle)
    height = bottom + 18
    title = "Speed of qkv beside programs that do the same work"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
            "font-family=\"system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif\">\n"
            f'<title>{title}</title>\n<rect width="100%" height="100%" fill="{colours["paper"]}"/>\n'
            + text(LABELS, 32, title, 18, "ink", strong)
            + text(LABELS, 53, "The other program’s time divided by qkv’s: right of the line qkv is faster, left of it slower.", 13, "quiet")
            + text(LABELS, 71, "Two cores, AMD Zen 4 unless named; both have the same weights, inputs and threads.", 13, "quiet")
            + grid + body + "</svg>\n")


for theme in THEMES:
    path = FOLDER / f"speed-{theme}.svg"
    if "--check" not in sys.argv[1:]:
        path.write_text(draw(theme), encoding="utf-8")
    elif path.read_text(encoding="utf-8") != draw(theme):
        sys.exit(f"{path}: expected the figures of {SPEED} and {SERVING}, found others; python3 {sys.argv[0]} draws it again")
