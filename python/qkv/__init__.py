"""qkv: the Transformer, native. See docs/python.md.

>>> import qkv
>>> model = qkv.open("all-MiniLM-L6-v2")
>>> model.encode(["A sentence.", "Another one."]).shape
(2, 384)
"""

from ._model import Attention, ImageEncoder, LanguageModel, Layer, Model, Stream, TextEncoder, TranslationModel, open
from ._qkv import (
    DataError,
    Error,
    IoError,
    NumericError,
    ShapeError,
    UsageError,
    __version__,
    set_threads,
    threads,
)

__all__ = [
    "Attention",
    "DataError",
    "Error",
    "ImageEncoder",
    "IoError",
    "LanguageModel",
    "Layer",
    "Model",
    "NumericError",
    "ShapeError",
    "Stream",
    "TextEncoder",
    "TranslationModel",
    "UsageError",
    "__version__",
    "open",
    "set_threads",
    "threads",
]
