"""Model folders: what they are decides what they can do."""

from __future__ import annotations

import atexit
import copy
import json
import os
import string
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _qkv
from ._attention import Attention
from ._speech import Transcription, TranscriptionStream, _sounds, _transcription
from ._vectors import _encoded, _texts

if TYPE_CHECKING:
    from typing import Literal, Unpack

    import numpy

    from ._option_types import AnswerOptions, EngineOptions, SearchOptions, TranscribeOptions, TranslateOptions
    from ._speech import Audio

    Pooling = Literal["mean", "cls", "max", "last", "weighted-mean", "mean-sqrt-len", "pooler"]

_METHODS: dict[str, str] = {}  # of all kinds: a method, and the kind that has it


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _with_options(of: str) -> Callable[[_Function], _Function]:
    """Documents a function's **options, where its docstring has OPTIONS: names, types and meanings from the library."""

    def documented(function: _Function) -> _Function:
        if function.__doc__:  # none with -OO
            before, _, after = function.__doc__.partition("OPTIONS")
            indent = before[before.rindex("\n") :]
            lines = [f"{name}: {type}. {' '.join(help.split())}." for name, type, help in _qkv.option_fields(of)]
            function.__doc__ = before + indent.join(lines) + after
        return function

    return documented


@_with_options("engine")
def open(
    model: str | os.PathLike[str],
    *,
    kind: Literal["encoder"] | None = None,
    dtype: str | None = None,
    device: str | None = None,
    activations: Literal["f32", "bf16"] | None = None,
    adapter: str | os.PathLike[str] | None = None,
    image_size: int | None = None,
    cache_dtype: str | None = None,
    **options: Unpack[EngineOptions],
) -> Model:
    """Opens a model as what its config.json says: a folder in Hugging Face's layout, a GGUF file, or the name of a model
    that `qkv pull` has downloaded.

    kind: "encoder" opens the stack of a language model, or the encoder of T5, as a TextEncoder.
    dtype: of the weight matrices, "f32", "bf16", "f16", "int8", "q8_0", "q4_k", ...; default: the folder's.
    device: "cpu", "reference", which computes in double precision with plain loops, or with a build that has
        libqkv_cuda.so "cuda", "cuda:N" or "auto".
    activations: "bf16" on another device than "cpu": in half the memory, with other last digits; default: "f32".
    adapter: folder or name of a LoRA adapter.
    image_size: pixels a side that images are resized to, for image encoders; default: the model's.
    cache_dtype: of keys and values, "f32", "bf16" or "q8_0".
    OPTIONS

    Raises IoError (an OSError) for files that cannot be read and for a name that is not in the cache, DataError and
    UsageError (ValueErrors).
    """
    given = dict(options, dtype=dtype, device=device, activations=activations, adapter=adapter, image_size=image_size, cache_dtype=cache_dtype)
    core = _qkv.open(model, kind, given)
    return _KINDS[type(core)](core)


def _with_schema(options: Any, schema: dict[str, Any] | str | None) -> Any:
    if schema is None:
        return options
    return dict(options, json_schema=schema if isinstance(schema, str) else json.dumps(schema))


def _json(what: str, value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _qkv.UsageError(f"{what}: expected what JSON can have, found another value: {error}") from None


def _checked_tools(tools: Iterable[dict[str, Any]] | None) -> list[dict[str, Any]]:
    if tools is None:
        return []
    if isinstance(tools, (str, bytes, Mapping)):
        raise _qkv.UsageError(f"tools: expected a list of dicts, found {type(tools).__name__}")
    found = list(tools)
    for index, tool in enumerate(found):
        if not isinstance(tool, Mapping):
            raise _qkv.UsageError(f"tools: [{index}]: expected a dict, found {tool!r}")
    return found


def _checked_choice(choice: str | dict[str, Any], tools: list[dict[str, Any]]) -> tuple[str, bool]:
    """The word or the name of a tool, and which of the two it is."""
    named = isinstance(choice, Mapping)
    if isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        choice = choice["function"].get("name", "")
    if not isinstance(choice, str):
        raise _qkv.UsageError(f"tool_choice: expected a text or {{'type': 'function', 'function': {{'name': ...}}}}, found {choice!r}")
    if not tools and (named or choice not in ("auto", "none")):
        raise _qkv.UsageError(f"tool_choice: expected 'auto' or 'none' without tools, found {choice!r}")
    return choice, named or choice not in ("auto", "none", "required")


class Model:
    """A model folder, opened. Any number of threads may use one; they share its engine."""

    _kind = "a model"

    def __init__(self, core: Any) -> None:
        self._core = core

    def inspect(self) -> dict[str, Any]:
        """The kind and family of the model, its parameters and bytes, in total and by part."""
        return json.loads(self._core.inspect())

    def __repr__(self) -> str:
        about = self.inspect()
        return f"<qkv.{type(self).__name__} {about['model']!r}: {about['family']}, {about['parameters']:,} parameters, {about['dtype']}>"

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS:
            raise AttributeError(f"{name}: expected {_METHODS[name]}, found {self._kind}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _bytes_to_characters(text: str, entries: list[dict[str, Any]], *names: str) -> None:
    """Replaces byte positions in UTF-8 by indices of characters."""
    if text.isascii():
        return
    at = {}
    position = 0
    for index, character in enumerate(text):
        at[position] = index
        position += len(character.encode())
    at[position] = len(text)
    for entry in entries:
        for name in names:
            entry[name] = at[entry[name]]


def _tokens(core_json: str, *texts: str) -> dict[str, Any]:
    found = json.loads(core_json)
    for index, text in enumerate(texts):
        spans = [
            {"begin": begin, "end": end, "span": k}
            for k, (begin, end) in enumerate(found["offsets"])
            if found["text_index"][k] == index
        ]
        _bytes_to_characters(text, spans, "begin", "end")
        for one in spans:
            found["offsets"][one["span"]] = [one["begin"], one["end"]]
    return found


class TranslationModel(Model):
    """An encoder-decoder: Marian, T5, BART, NLLB, or a model of `qkv train translation`."""

    _kind = "an encoder-decoder"

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is an Iterable[str]
        self, texts: str, *, prefix: str | None = ..., details: Literal[False] = ..., **options: Unpack[TranslateOptions]
    ) -> str: ...
    @overload
    def translate(
        self, texts: Iterable[str], *, prefix: str | Sequence[str] | None = ..., details: Literal[False] = ...,
        **options: Unpack[TranslateOptions],
    ) -> list[str]: ...
    @overload
    def translate(
        self, texts: str | Iterable[str], *, prefix: str | Sequence[str] | None = ..., details: bool,
        **options: Unpack[TranslateOptions],
    ) -> Any: ...

    @_with_options("search")
    def translate(
        self,
        texts: str | Iterable[str],
        *,
        prefix: str | Sequence[str] | None = None,
        details: bool = False,
        **options: Unpack[TranslateOptions],
    ) -> Any:
        """The translation of a text, or a list of those of several.

        prefix: the beginning of the translation, for each text, in whole words.
        details: dicts as `qkv translate --json --scores` prints them instead of texts.
        Options are those of `qkv translate`, by default the folder's: sample (bool), forbid (texts), stop_ids (token
        ids), constraints (of qkv.search.Constraint), max_source_tokens, truncate (bool), alignment (bool, with details),
        source_language and target_language (as a model with several names them: "eng_Latn"),
        OPTIONS

        Raises UsageError for a bad option, DataError for a text that cannot be translated.
        """
        all_texts, single = _texts(texts)
        prefixes = [] if prefix is None else [prefix] * len(all_texts) if isinstance(prefix, str) else list(prefix)
        if prefixes and len(prefixes) != len(all_texts):
            raise _qkv.UsageError(f"prefix: expected one for each of {len(all_texts)} texts, found {len(prefixes)}")
        results = self._core.translate(all_texts, prefixes, details, options)
        found = [json.loads(more) if details else text for text, more in results]
        return found[0] if single else found

    def score(self, sources: str | Iterable[str], targets: str | Iterable[str]) -> Any:
        """The log-probability of given translations: a dict {"log_probability", "perplexity", "tokens",
        "token_log_probabilities"} for a pair, or a list of them. Natural logarithms."""
        all_sources, single = _texts(sources)
        found = [json.loads(one) for one in self._core.score(all_sources, _texts(targets)[0])]
        return found[0] if single else found

    def tokenize(self, text: str, *, target: bool = False) -> dict[str, Any]:
        """{"ids", "tokens", "offsets", ...} of a source, or of a target. Offsets are indices of characters."""
        return _tokens(self._core.tokenize(text, target), text)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids of a target, without special tokens."""
        return self._core.decode(list(ids))

    @property
    def model(self) -> _qkv.Transformer:
        """The model of token ids (qkv.models.Transformer). Its parameters are frozen."""
        return self._core.model

    def attention(self, source: str, target: str | None = None) -> Attention:
        """The attention of a source and its translation, by default the model's own.

        Raises UsageError for a source without tokens, DataError for one that is too long.
        """
        return Attention(self._core.attention(source, target or ""))


# What lives to the end of the interpreter is closed first: constraints that it holds may refer to it.
_streams: weakref.WeakSet[Stream | TranscriptionStream] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for stream in list(_streams):
        stream.close()


def _call_id() -> str:
    # Nine letters and digits, as Mistral's templates require.
    letters = string.ascii_lowercase + string.digits
    # Not by `secrets`, which imports hashlib and with it OpenSSL.
    return "".join(letters[byte % len(letters)] for byte in os.urandom(9))


class Stream(Iterator[str]):
    """The text of a completion, in pieces, as it is generated: an iterator, also an asynchronous one."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._text = ""
        self._calls: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        _streams.add(self)

    def _read(self) -> str | None:
        piece = self._core.next()
        self._text += piece or ""
        return piece

    def __next__(self) -> str:
        piece = self._read()
        if piece is None:
            raise StopIteration
        return piece

    def text(self) -> str:
        """All text that has not been read yet."""
        return "".join(self)

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The calls of tools so far: {"id", "type": "function", "function": {"name", "arguments": a dict}}."""
        with self._lock:
            for name, arguments in self._core.calls()[len(self._calls) :]:
                function = {"name": name, "arguments": json.loads(arguments)}
                self._calls.append({"id": _call_id(), "type": "function", "function": function})
            return copy.deepcopy(self._calls)

    @property
    def message(self) -> dict[str, Any]:
        """What has been read as a message of a conversation, with the calls of tools so far."""
        message: dict[str, Any] = {"role": "assistant", "content": self._text}
        calls = self.tool_calls
        return dict(message, tool_calls=calls) if calls else message

    def close(self) -> None:
        """Ends the generation."""
        self._core.close()

    @property
    def result(self) -> dict[str, Any] | None:
        """After the last piece, what `qkv generate --json` prints: token ids, log-probabilities, ... None before."""
        found = self._core.result()
        return None if found is None else json.loads(found)

    async def __aiter__(self) -> AsyncIterator[str]:
        import asyncio

        while (piece := await asyncio.to_thread(self._read)) is not None:
            yield piece


def _images(messages: Sequence[dict[str, Any]]) -> list[str]:
    """The files of the images in a conversation, in their order."""
    parts = [part for message in messages if isinstance(message.get("content"), list) for part in message["content"]]
    images = [part for part in parts if isinstance(part, dict) and part.get("type") == "image"]
    for image in images:
        if not isinstance(image.get("path"), str):
            raise _qkv.UsageError('messages: expected {"type": "image", "path": ...}, found an image without "path"')
    return [image["path"] for image in images]


class LanguageModel(Model):
    """A decoder: GPT-2, Llama, Qwen, ..."""

    _kind = "a language model"

    @_with_options("search")
    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        images: Iterable[str | os.PathLike[str]] = (),
        key: int = 1,
        json_schema: dict[str, Any] | str | None = None,
        **options: Unpack[SearchOptions],
    ) -> Stream:
        """Continues a prompt, a text or token ids: an iterator of text.

        images: paths of PNG and JPEG files, for models that read images: one for each "<image>" in the text, or what the
            model has for it.
        key: with the seed, determines all random numbers.
        json_schema: a JSON schema, of which the output is a value; {"type": "object"}: any object.
        Options are those of `qkv generate`, by default the folder's: sample (bool), forbid (texts), stop_ids (token ids),
        constraints (of qkv.search.Constraint),
        OPTIONS

        Raises UsageError for a bad option, DataError for a prompt that is too long or not UTF-8.
        """
        given = _with_schema(options, json_schema)
        if isinstance(prompt, str):
            return Stream(self._core.stream(prompt, [], [str(one) for one in images], key, given))
        if list(images):
            raise _qkv.UsageError("images: expected none beside token ids, found some")
        return Stream(self._core.stream("", list(prompt), [], key, given))

    def chat(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        key: int = 1,
        template: str = "default",
        template_variables: dict[str, Any] | None = None,
        json_schema: dict[str, Any] | str | None = None,
        tools: Iterable[dict[str, Any]] = (),
        tool_choice: str | dict[str, Any] = "auto",
        parallel_tool_calls: bool = True,
        **options: Unpack[SearchOptions],
    ) -> Stream:
        """The answer to a conversation, [{"role": "user", "content": "..."}, ...]: an iterator of text. For models that read
        images, a content may be a list of parts: {"type": "text", "text": "..."} and {"type": "image", "path": "..."}, a PNG or
        JPEG file.

        template: the name of one of several chat templates of the folder.
        template_variables: of the template, {"enable_thinking": False}.
        json_schema: as in generate().
        tools: functions that the answer may call, [{"type": "function", "function": {"name", "description",
            "parameters": a JSON schema}}]. Stream.tool_calls has the calls, Stream.message the answer, to which a
            conversation adds {"role": "tool", "tool_call_id", "content"} for each.
        tool_choice: "auto", "none", "required", the name of a tool, or {"type": "function", "function": {"name": ...}}.
        parallel_tool_calls: whether an answer may have several calls.
        Options: those of generate(); with the folder's "do_sample" answers are sampled, unless sample=False.

        Raises DataError for a folder without a chat template, and for messages that the template refuses.
        """
        given_tools = _checked_tools(tools)
        choice, named = _checked_choice(tool_choice, given_tools)
        shown = given_tools if named or choice != "none" else []
        prompt = self.apply_chat_template(messages, template=template, template_variables=template_variables, tools=shown)
        given = _with_schema(options, json_schema)
        only = choice if named else ""
        described = _json("tools", shown) if shown else ""
        images = _images(messages)
        return Stream(self._core.answer(prompt, images, template, key, given, described, choice == "required" and not named, only, bool(parallel_tool_calls)))

    def apply_chat_template(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        template: str = "default",
        template_variables: dict[str, Any] | None = None,
        continue_final_message: bool = False,
        tools: Iterable[dict[str, Any]] = (),
    ) -> str:
        """The text of the prompt for a conversation, as transformers' apply_chat_template()."""
        shown = _checked_tools(tools)
        described = _json("tools", shown) if shown else ""
        variables = _json("template_variables", template_variables or {})
        return self._core.render(_json("messages", list(messages)), variables, described, template, continue_final_message)

    def score(self, texts: str | Iterable[str]) -> Any:
        """The log-probability of texts, given their first token: a dict {"log_probability", "perplexity", "tokens",
        "token_log_probabilities"} for a text, or a list of them. Natural logarithms."""
        all_texts, single = _texts(texts)
        found = [json.loads(one) for one in self._core.score(all_texts)]
        return found[0] if single else found

    def tokenize(self, text: str) -> dict[str, Any]:
        """{"ids", "tokens", "offsets", ...} of a text. Offsets are indices of characters."""
        return _tokens(self._core.tokenize(text), text)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids, without special tokens."""
        return self._core.decode(list(ids))

    @property
    def model(self) -> _qkv.LanguageModelModel:
        """The model of token ids (qkv.models.LanguageModel). Its parameters are frozen."""
        return self._core.model

    @property
    def tokenizer(self) -> _qkv.Tokenizer:
        return self._core.tokenizer

    def attention(self, text: str, *, tile: int = 0) -> Attention:
        """The attention of a text.

        tile: tokens that are one query and one key; 1: each token; 0: each up to 256 tokens, beyond 128 tiles.
        """
        return Attention(self._core.attention(text, tile))

    def complete(
        self, prompts: str | Iterable[str], *, json_schema: dict[str, Any] | str | None = None, **options: Unpack[SearchOptions]
    ) -> Any:
        """The completions of prompts, as `qkv generate --json` prints them: a dict for a prompt, or a list of them.

        json_schema: as in generate().
        Options: those of generate(), and nbest.
        """
        all_prompts, single = _texts(prompts)
        found = [json.loads(one) for one in self._core.complete(all_prompts, _with_schema(options, json_schema))]
        return found[0] if single else found


class TextEncoder(Model):
    """An encoder of texts: BERT, RoBERTa, the encoder of T5, ..."""

    _kind = "a text encoder"

    def encode(
        self,
        texts: str | Iterable[str],
        *,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        convert_to_numpy: bool = True,
        on_progress: Callable[[int], object] | None = None,
        normalize_embeddings: bool | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        pooling: Pooling | None = None,
        dimensions: int | None = None,
        max_length: int | None = None,
    ) -> numpy.ndarray:
        """Vectors of texts: float32 [texts, d_model], or [d_model] for a single text.

        Those from normalize_embeddings on are by default those of the folder's sentence-transformers files.
        batch_size: texts in memory at a time, default: all. Batches for the processor are made of tokens, of
        any number of texts; vectors have the same bits for any batch.
        on_progress: called with the number of texts that are done.

        Raises UsageError for a bad option, DataError for a text that is too long.
        """
        if not convert_to_numpy:
            raise _qkv.UsageError("convert_to_numpy: expected True, found False")
        options = {
            "normalize_embeddings": normalize_embeddings,
            "prompt": prompt,
            "prompt_name": prompt_name,
            "pooling": pooling,
            "dimensions": dimensions,
            "max_length": max_length,
        }
        return _encoded(self._core, texts, batch_size, show_progress_bar, on_progress, options)

    def encode_sparse(
        self,
        texts: str | Iterable[str],
        *,
        top: int | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        max_length: int | None = None,
    ) -> Any:
        """The weights of vocabulary tokens in a text, [{"token", "id", "weight"}, ...], largest first, without the zeros; of
        several texts, a list of such lists. The model is a SPLADE, with a masked-language head.

        top: the largest weights only. The other options are by default those of the folder's sentence-transformers files.
        """
        all_texts, single = _texts(texts)
        options = {"top": top, "prompt": prompt, "prompt_name": prompt_name, "max_length": max_length}
        found = [json.loads(one)["weights"] for one in self._core.encode_sparse(all_texts, options)]
        return found[0] if single else found

    def classify(
        self,
        texts: str | tuple[str, str] | Iterable[str | tuple[str, str]],
        *,
        top: int | None = None,
        labels: Iterable[str] | None = None,
        hypothesis: str | None = None,
        multi_label: bool | None = None,
    ) -> Any:
        """The labels of a text or a pair of texts, [{"label", "probability"}, ...], most likely first; of several,
        a list of such lists. top: the number of labels, default: all.

        labels: instead of the model's own, labels that it was not trained on. The model is one of natural language
        inference, which tells how likely a text entails the hypothesis, "This example is {}." with a label in place of
        {}. multi_label: several labels may apply to a text; each has a probability of its own.
        """
        single = isinstance(texts, (str, tuple))
        items: list[Any] = [texts] if single else list(texts)  # type: ignore[arg-type]
        pairs = [item for item in items if isinstance(item, tuple)]
        if pairs and len(pairs) != len(items):
            raise _qkv.UsageError("classify: expected texts or pairs of texts, found both")
        how = {name: value for name, value in (("hypothesis", hypothesis), ("multi_label", multi_label)) if value is not None}
        if labels is None and how:
            raise _qkv.UsageError(f"{', '.join(how)}: expected labels beside it, found none")
        if labels is not None and pairs:
            raise _qkv.UsageError("labels: expected texts, found pairs of texts")
        if labels is not None:
            core = self._core.classify_by(items, list(labels), how, top)
        else:
            core = self._core.classify([first for first, _ in pairs] if pairs else items, [pair[1] for pair in pairs], top)
        found = [json.loads(one)["labels"] for one in core]
        return found[0] if single else found

    def fill_mask(self, texts: str | Iterable[str], *, count: int = 5) -> Any:
        """For each mask of a text the likely tokens, [[{"token", "id", "probability", "text"}, ...], ...]; of
        several texts, a list of such lists. See mask_token."""
        all_texts, single = _texts(texts)
        found = [json.loads(one)["masks"] for one in self._core.fill_mask(all_texts, count)]
        return found[0] if single else found

    @property
    def mask_token(self) -> str:
        """The mask as the vocabulary spells it: "[MASK]"."""
        return self._core.mask_token()

    def tag(self, texts: str | Iterable[str], *, words: bool = False) -> Any:
        """The tokens of a text with their labels, [{"text", "begin", "end", "label", "probability"}, ...]; of several,
        a list of such lists. begin and end are indices of characters. words: label words instead of tokens."""
        all_texts, single = _texts(texts)
        found = [json.loads(one)["words" if words else "tokens"] for one in self._core.tag(all_texts, words)]
        for text, tokens in zip(all_texts, found):
            _bytes_to_characters(text, tokens, "begin", "end")
        return found[0] if single else found

    @_with_options("answer")
    def answer(self, question: str | Iterable[str], text: str | Iterable[str], **options: Unpack[AnswerOptions]) -> Any:
        """The answers to a question, which are spans of the text, [{"text", "begin", "end", "probability"}, ...], most
        likely first; of several texts, of several questions, or of as many of both, a list of such lists. begin and end
        are indices of characters. An empty answer means that the text has none (unanswerable).

        OPTIONS
        """
        questions, one_question = _texts(question)
        texts, one_text = _texts(text)
        count = len(texts) if one_question else len(questions)
        if not one_text and len(texts) != count:
            raise _qkv.UsageError(f"answer: expected a text, or one for each of {count} questions, found {len(texts)}")
        questions = questions * count if one_question else questions
        texts = texts * count if one_text else texts
        found = [json.loads(one)["answers"] for one in self._core.answer(questions, texts, dict(options))]
        for own, answers in zip(texts, found):
            _bytes_to_characters(own, answers, "begin", "end")
        return found[0] if one_question and one_text else found

    def rerank(
        self, query: str, texts: Iterable[str], *, top: int | None = None, raw: bool = False, max_length: int | None = None
    ) -> list[dict[str, Any]]:
        """The texts by relevance to the query, best first: [{"index", "score", "text"}, ...].

        raw: logits instead of their sigmoids. The model is a cross-encoder with one label.
        """
        all_texts = list(texts)
        scores = self._core.rerank(query, all_texts, raw, max_length)
        order = sorted(range(len(scores)), key=lambda index: -scores[index])[:top]
        return [{"index": index, "score": scores[index], "text": all_texts[index]} for index in order]

    def tokenize(self, text: str, pair: str | None = None) -> dict[str, Any]:
        """{"ids", "tokens", "offsets", "type_ids", "special_mask", "text_index", "word_index"} of a text or a pair. Offsets
        are indices of characters of the text that text_index names; word_index numbers the words of each text."""
        return _tokens(self._core.tokenize(text, pair), text, *([] if pair is None else [pair]))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids, without special tokens."""
        return self._core.decode(list(ids))

    @property
    def model(self) -> _qkv.TextEncoderModel:
        """The model of token ids (qkv.models.TextEncoder). Its parameters are frozen."""
        return self._core.model

    @property
    def tokenizer(self) -> _qkv.Tokenizer:
        return self._core.tokenizer

    def attention(self, text: str, pair: str | None = None, *, tile: int = 0) -> Attention:
        """The attention of a text, or of a pair that the model reads as one.

        tile: tokens that are one query and one key; 1: each token; 0: each up to 256 tokens, beyond 128 tiles.
        """
        return Attention(self._core.attention(text, pair or "", tile))


class ImageEncoder(Model):
    """An encoder of images: ViT, DeiT. Images are paths of PNG and JPEG files."""

    _kind = "an image encoder"

    def encode(
        self,
        images: str | Iterable[str],
        *,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        on_progress: Callable[[int], object] | None = None,
        normalize_embeddings: bool | None = None,
        pooling: Pooling | None = None,
    ) -> numpy.ndarray:
        """Vectors of images: float32 [images, d_model], or [d_model] for a single one."""
        options = {"normalize_embeddings": normalize_embeddings, "pooling": pooling}
        return _encoded(self._core, images, batch_size, show_progress_bar, on_progress, options)

    def classify(self, images: str | Iterable[str], *, top: int | None = None) -> Any:
        """The labels of an image, [{"label", "probability"}, ...], most likely first; of several, a list of such lists."""
        paths, single = _texts(images)
        found = [json.loads(one)["labels"] for one in self._core.classify(paths, top)]
        return found[0] if single else found

    def attention(self, image: str | os.PathLike[str]) -> Attention:
        """The attention of an image's patches."""
        return Attention(self._core.attention(str(image)))


class DualEncoder(Model):
    """Two encoders, of texts and of images, whose vectors are in one space: CLIP, SigLIP. Images are paths of PNG and JPEG
    files. A text fits an image the better, the larger the cosine of their vectors is."""

    _kind = "an encoder of texts and one of images"

    @property
    def texts(self) -> TextEncoder:
        """The encoder of texts."""
        return TextEncoder(self._core.texts())

    @property
    def images(self) -> ImageEncoder:
        """The encoder of images."""
        return ImageEncoder(self._core.images())

    def encode(self, texts: str | Iterable[str], **options: Any) -> numpy.ndarray:
        """Vectors of texts: float32 [texts, width], or [width] for a single text. Options: those of TextEncoder.encode()."""
        return self.texts.encode(texts, **options)

    def encode_images(self, images: str | Iterable[str], **options: Any) -> numpy.ndarray:
        """Vectors of images: float32 [images, width], or [width] for a single one. Options: those of
        ImageEncoder.encode()."""
        return self.images.encode(images, **options)

    def classify(
        self, images: str | Iterable[str], labels: Iterable[str], *, hypothesis: str | None = None, top: int | None = None
    ) -> Any:
        """How well each label fits an image, [{"label", "probability"}, ...], best first; of several images, a list of such
        lists. The model reads a label in the hypothesis, "This is a photo of {}.", in place of {}."""
        paths, single = _texts(images)
        options = {} if hypothesis is None else {"hypothesis": hypothesis}
        found = [json.loads(one)["labels"] for one in self._core.classify(paths, list(labels), options, top)]
        return found[0] if single else found


class SpeechModel(Model):
    """A model that transcribes audio: Whisper. An audio is the path of a WAV, FLAC, MP3, Ogg or AIFF file, the bytes of one, or
    (samples, rate): an array [samples] or [samples, channels] of float32 or float64 from -1 to 1, or of int16, and samples per
    second. Channels are averaged, and audio of any rate and length is taken."""

    _kind = "a speech model"

    @overload
    def transcribe(self, audio: Audio, **options: Unpack[TranscribeOptions]) -> Transcription: ...  # type: ignore[overload-overlap]
    @overload
    def transcribe(self, audio: Iterable[Audio], **options: Unpack[TranscribeOptions]) -> list[Transcription]: ...

    @_with_options("transcribe")
    def transcribe(self, audio: Audio | Iterable[Audio], **options: Unpack[TranscribeOptions]) -> Any:
        """The transcription of an audio, or a list of those of several, whose windows are decoded together.

        Options are those of `qkv transcribe`, by default the folder's: temperatures (that are tried one after the other
        while a window's text repeats itself or is unlikely; at 0, the search), forbid (texts), stop_ids (token ids),
        constraints (of qkv.search.Constraint),
        OPTIONS

        Raises UsageError for a bad option, IoError and DataError for a file that cannot be read, ShapeError for another
        array.
        """
        sounds, single = _sounds(audio)
        found = [_transcription(one) for one in self._core.transcribe(sounds, options)]
        return found[0] if single else found

    def stream(self, audio: Audio, *, key: int = 0, **options: Unpack[TranscribeOptions]) -> TranscriptionStream:
        """Transcribes an audio: an iterator of segments, as they become known.

        key: with the seed, determines all random numbers.
        Options: those of transcribe().
        """
        sounds, single = _sounds(audio)
        if not single:
            raise _qkv.UsageError(f"audio: expected one for a stream, found a list of {len(sounds)}; see transcribe()")
        stream = TranscriptionStream(self._core.stream(sounds[0], key, options))
        _streams.add(stream)
        return stream

    @property
    def languages(self) -> list[str]:
        """The codes of the languages that the model transcribes."""
        return self._core.languages()

    def tokenize(self, text: str) -> dict[str, Any]:
        """{"ids", "tokens", "offsets", ...} of a text. Offsets are indices of characters."""
        return _tokens(self._core.tokenize(text), text)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids, without special tokens and timestamps."""
        return self._core.decode(list(ids))

    @property
    def model(self) -> _qkv.Transformer:
        """The model of token ids (qkv.models.Transformer). Its parameters are frozen."""
        return self._core.model

    @property
    def tokenizer(self) -> _qkv.Tokenizer:
        return self._core.tokenizer


_KINDS = {
    _qkv.TranslationModel: TranslationModel,
    _qkv.LanguageModel: LanguageModel,
    _qkv.TextEncoder: TextEncoder,
    _qkv.ImageEncoder: ImageEncoder,
    _qkv.DualEncoder: DualEncoder,
    _qkv.SpeechModel: SpeechModel,
}
for _class in _KINDS.values():
    for _name in vars(_class):
        if not _name.startswith("_"):
            _METHODS[_name] = f"{_METHODS[_name]} or {_class._kind}" if _name in _METHODS else _class._kind
