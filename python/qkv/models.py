"""Whole models, from token ids to logits. (qkv.open() returns opened folders, whose .model is one of these.)"""

from ._option_types import LanguageModelConfig, TextEncoderConfig, TransformerConfig
from ._options import Options, _wrapped
from ._qkv import CrossEntropyResult, Logits, Transformer
from ._qkv import LanguageModelModel as LanguageModel
from ._qkv import TextEncoderModel as TextEncoder
from ._qkv import preset as _preset


def preset(name: str) -> Options:
    """The TransformerConfig of a preset: "tiny", "small", "base" or "big"."""
    return _wrapped(_preset(name))


__all__ = [
    "CrossEntropyResult",
    "LanguageModel",
    "LanguageModelConfig",
    "Logits",
    "TextEncoder",
    "TextEncoderConfig",
    "Transformer",
    "TransformerConfig",
    "preset",
]
