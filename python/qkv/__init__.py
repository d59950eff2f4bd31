"""qkv: the Transformer, native. See docs/python.md.

>>> import qkv
>>> model = qkv.open("all-MiniLM-L6-v2")
>>> model.encode(["A sentence.", "Another one."]).shape
(2, 384)
"""

from . import models, nn, optim, search, text
from ._attention import Attention, Layer, attention
from ._model import DualEncoder, ImageEncoder, LanguageModel, Model, SpeechModel, Stream, TextEncoder, TranslationModel, open
from ._qkv import (
    AttentionResult,
    DataError,
    Error,
    IoError,
    NumericError,
    Offsets,
    Ragged,
    RandomStream,
    ShapeError,
    Tape,
    Tensor,
    UsageError,
    Variable,
    __version__,
    concatenate,
    cross_entropy,
    gather,
    linear,
    log_softmax,
    matmul,
    mean,
    mse,
    multihead_attention,
    reshape,
    scaled_dot_product_attention,
    segment_max,
    segment_mean,
    set_threads,
    slice,
    softmax,
    sum,
    threads,
    training_settings,
    transpose,
)
from ._speech import TranscribedSegment, TranscribedWord, Transcription, TranscriptionStream
from ._train import train

__all__ = [name for name in globals() if not name.startswith("_")] + ["__version__"]
