"""Optimizers and learning rates."""

from ._qkv import Adafactor, Adagrad, Adam, AdamW, Optimizer, Rmsprop, Sgd, learning_rate

__all__ = ["Adafactor", "Adagrad", "Adam", "AdamW", "Optimizer", "Rmsprop", "Sgd", "learning_rate"]
