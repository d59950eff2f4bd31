"""Training runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from . import _qkv


def train(
    task: str,
    *,
    out: str | os.PathLike[str],
    preset: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    on_step: Callable[[dict[str, Any]], Any] | None = None,
    on_validation: Callable[[dict[str, Any]], Any] | None = None,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Trains a model into the folder `out`, as `qkv train TASK` does, and returns what its --json prints.

    task: "translation", "lm", "classify", "tag", "answer", "embed", "pretrain-bert" or "image".
    options: those of `qkv train TASK --help`, with _ for -: train="a.txt", max_steps=100, batch_tokens=2048; a
    Python keyword has a _ at its end (from_). settings: the same by full name, {"model.d_model": 64};
    training_settings(task) lists them.
    on_step, on_validation: called with a dict of the step's numbers ("step", "loss", "learning_rate", ...) on the
    thread that trains. False ends the run, as do Ctrl-C (KeyboardInterrupt) and an exception, which is raised;
    the run is saved, and resume=True continues it to the same bits.

    Raises UsageError for a setting that does not fit, IoError and DataError for files.
    """
    given = {name.rstrip("_"): value for name, value in options.items() if value is not None}
    given.update(settings or {})
    return _qkv.train(task, out, preset, resume, overwrite, on_step, on_validation, given)
