"""Tokenizers."""

from ._qkv import Encoding, Tokenizer

__all__ = ["Encoding", "Tokenizer"]
