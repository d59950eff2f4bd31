"""Writes the stub of qkv/_option_types.py: the options with their types, from the library's fields.

    PYTHONPATH=build/release/python python -P python/make_stubs.py STUB.pyi
"""

import sys
import textwrap
from pathlib import Path

from qkv import _option_types, _qkv
from qkv._options import Options

HEAD = '''# Made by python/make_stubs.py from the library's fields.
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict

from ._options import Options
from .search import Constraint
'''
# Options that are no fields of a struct.
SAMPLE = [
    ("sample", "bool", "Sample instead of searching; default: the folder's"),
    ("forbid", "Iterable[str]", "Texts that do not occur in the output"),
    ("stop_ids", "Iterable[int]", "Token ids that end the output"),
    ("constraints", "Iterable[Constraint]", "Objects that decide on the next tokens (qkv.search.Constraint)"),
]
TRANSLATE = [
    ("max_source_tokens", "int", "Tokens of a source; a longer one is an error, or is cut with truncate"),
    ("truncate", "bool", "Cut a source that is too long for the model or max_source_tokens"),
    ("alignment", "bool", "The source token of each target token, in the details"),
]
TRANSCRIBE = [
    ("temperatures", "Sequence[float]", "Tried one after the other while a window's text repeats itself or is unlikely; at 0, the search"),
]


def typed_dict(name, base, fields):
    lines = [f"class {name}({base}, total=False):"]
    for field, kind, text in fields:
        lines.append(f"    {field}: {kind}")
        lines.append(textwrap.indent(f'"""{" ".join(text.split())}."""', "    "))
    return "\n".join(lines)


def type_of(value):
    if isinstance(value, list):
        return f"Sequence[{type_of(value[0]) if value else 'Any'}]"
    if isinstance(value, dict):
        return "Options | dict[str, Any]"
    return "Any" if value is None else type(value).__name__


def options_class(name, made):
    fields = made()
    parameters = ", ".join(f"{field}: {type_of(value)} = ..." for field, value in fields.items())
    lines = [f"class {name}(Options):", f"    def __init__(self, *, {parameters}) -> None: ..."]
    lines += [f"    {field}: {'Any' if isinstance(value, (dict, list)) else type_of(value)}" for field, value in fields.items()]
    return "\n".join(lines)


parts = [
    HEAD,
    typed_dict("EngineOptions", "TypedDict", _qkv.option_fields("engine")),
    typed_dict("AnswerOptions", "TypedDict", _qkv.option_fields("answer")),
    typed_dict("SearchOptions", "TypedDict", [*_qkv.option_fields("search"), *SAMPLE]),
    typed_dict("TranscribeOptions", "TypedDict", [*_qkv.option_fields("transcribe"), *TRANSCRIBE, *SAMPLE[1:]]),
    typed_dict("TranslateOptions", "SearchOptions", [*TRANSLATE, *_qkv.option_fields("languages")]),
    *(options_class(name, made) for name, made in vars(_option_types).items() if isinstance(made, type) and made is not Options),
]
Path(sys.argv[1]).write_text("\n\n".join(parts) + "\n", encoding="utf-8")
