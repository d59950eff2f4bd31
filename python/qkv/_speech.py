"""What transcriptions of audio are."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _qkv

if TYPE_CHECKING:
    # A path, the bytes of a sound file, or (samples, rate).
    Audio = str | os.PathLike[str] | bytes | bytearray | memoryview | tuple[Any, int]


class TranscribedWord(NamedTuple):
    """A word. Times are in seconds from the beginning of the audio."""

    text: str  # with the space before it
    begin: float
    end: float
    probability: float


class TranscribedSegment(NamedTuple):
    """A part of a transcription, such as a sentence. Times are in seconds from the beginning of the audio."""

    begin: float
    end: float
    text: str  # with the space before it
    ids: list[int]  # tokens, timestamps included
    temperature: float
    # Of the window that the model has read at a time:
    log_probability: float  # mean of the tokens
    compression: float  # bytes of the text, divided by those after compression
    no_speech: float  # probability
    words: list[TranscribedWord]  # with words=True


class Transcription(NamedTuple):
    """The text of an audio."""

    text: str
    language: str  # code, "en"
    language_probability: float  # if it was detected; else 1
    seconds: float  # of the audio
    segments: list[TranscribedSegment]

    def to_srt(self) -> str:
        """The segments as a file of SubRip subtitles."""
        return self._file("srt")

    def to_vtt(self) -> str:
        """The segments as a file of WebVTT subtitles."""
        return self._file("vtt")

    def _file(self, format: str) -> str:
        return _qkv.transcript([(one.begin, one.end, one.text) for one in self.segments], format)

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        count = len(self.segments)
        return f"<qkv.Transcription {text!r}: {self.language}, {self.seconds:g} seconds, {count} segment{'s' * (count != 1)}>"


def _transcription(known: tuple[str, list[list[int]]]) -> Transcription:
    """Of the JSON of a transcription and the token ids of its segments."""
    found = json.loads(known[0])
    segments = []
    for one, ids in zip(found["segments"], known[1]):
        words = [TranscribedWord(**word) for word in one.pop("words", [])]
        segments.append(TranscribedSegment(**one, ids=ids, words=words))
    return Transcription(**dict(found, segments=segments))


def _sounds(audio: Audio | Iterable[Audio]) -> tuple[list[Any], bool]:
    """A list of sounds, and whether it was one sound."""
    single = isinstance(audio, (str, os.PathLike, bytes, bytearray, memoryview, tuple))
    if not single and (hasattr(audio, "__dlpack__") or not hasattr(audio, "__iter__")):
        found = "an array without its rate" if hasattr(audio, "__dlpack__") else repr(audio)
        raise _qkv.UsageError(f"audio: expected a path, the bytes of a sound file, (samples, rate), or a list of these, found {found}")
    sounds: list[Any] = [audio] if single else list(audio)  # type: ignore[arg-type]
    return [bytes(one) if isinstance(one, (bytearray, memoryview)) else one for one in sounds], single


class TranscriptionStream(Iterator[TranscribedSegment]):
    """The segments of an audio, as they become known: an iterator, also an asynchronous one."""

    def __init__(self, core: _qkv.TranscriptionStream) -> None:
        self._core = core

    def _read(self) -> TranscribedSegment | None:
        known = self._core.next()
        return None if known is None else _transcription(known).segments[0]

    def __next__(self) -> TranscribedSegment:
        segment = self._read()
        if segment is None:
            raise StopIteration
        return segment

    @property
    def seconds(self) -> float:
        """Of the audio."""
        return self._core.seconds()

    @property
    def seconds_done(self) -> float:
        """The seconds of the audio that have been transcribed."""
        return self._core.seconds_done()

    def close(self) -> None:
        """Ends the transcription."""
        self._core.close()

    @property
    def result(self) -> Transcription | None:
        """After the last segment, the whole transcription. None before."""
        found = self._core.result()
        return None if found is None else _transcription(found)

    async def __aiter__(self) -> AsyncIterator[TranscribedSegment]:
        import asyncio

        while (segment := await asyncio.to_thread(self._read)) is not None:
            yield segment
