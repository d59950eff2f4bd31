"""Model folders: results are those of the command."""

import asyncio
import json
import shutil
import threading

import numpy as np
import pytest
from conftest import MARIAN, MODELS, ROOT

import qkv

TEXTS = ["a man sleeps.", "the red dog runs in the house.", "a house"]
PROMPTS = ["the man", "a dog", "the red house and"]


def without_line(objects):
    return [{key: value for key, value in one.items() if key != "line"} for one in objects]


def test_an_encoder_returns_the_bits_of_the_command(encoder, command):
    for flags, options in [([], {}), (["--normalize"], {"normalize_embeddings": True}), (["--pool", "max"], {"pooling": "max"})]:
        lines = command("embed", MODELS / "bert_texts", *flags, text="\n".join(TEXTS))
        expected = np.array([line.split() for line in lines], dtype=np.float32)
        found = encoder.encode(TEXTS, **options)
        assert found.dtype == np.float32 and found.shape == (3, 8)
        assert found.tobytes() == expected.tobytes()


def test_vectors_do_not_depend_on_the_batch(encoder):
    together = encoder.encode(TEXTS)
    assert encoder.encode(TEXTS, batch_size=2).tobytes() == together.tobytes()
    assert encoder.encode(TEXTS[1]).tobytes() == together[1].tobytes()
    assert encoder.encode([]).shape == (0, 8)


def test_a_progress_function_is_called_and_may_raise(encoder):
    class Enough(Exception):
        pass

    def stop(done):
        raise Enough(done)

    many = TEXTS * 20000
    with pytest.raises(Enough):
        encoder.encode(many, on_progress=stop)


def test_a_stream_has_the_text_of_the_command(language, command):
    options = ["--max-new-tokens", "12"]
    for prompt in PROMPTS:
        expected = command("generate", MODELS / "llama", prompt, *options)
        assert prompt + "".join(language.generate(prompt, max_new_tokens=12)) == "\n".join(expected)


def test_completions_are_those_of_the_command(language, command):
    for flags, options in [
        (["--max-new-tokens", "5"], {"max_new_tokens": 5}),
        (["--max-new-tokens", "5", "--beam", "3", "--nbest", "2"], {"max_new_tokens": 5, "beam": 3, "nbest": 2}),
        (["--max-new-tokens", "7", "--top-p", "0.8", "--seed", "3"], {"max_new_tokens": 7, "top_p": 0.8, "seed": 3}),
        (["--max-new-tokens", "7", "--forbid", "blue"], {"max_new_tokens": 7, "forbid": ["blue"]}),
    ]:
        expected = command("generate", MODELS / "llama", "--json", *flags, text="\n".join(PROMPTS), as_json=True)
        assert language.complete(PROMPTS, **options) == without_line(expected)


def test_json_follows_its_schema():
    language = qkv.open(ROOT / "tests" / "apps" / "golden" / "hub" / "SmolLM2-135M")
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"]}
    for given in (schema, json.dumps(schema)):
        found = language.complete("The captain", json_schema=given, max_new_tokens=40, sample=True, temperature=2.0, seed=3)
        assert set(json.loads(found["texts"][0]["text"])) == {"n"}
    assert "n" in json.loads("".join(language.generate("The captain", json_schema=schema, max_new_tokens=40)))
    with pytest.raises(qkv.UsageError, match="json_schema: pattern: expected a keyword"):
        language.complete("a", json_schema={"type": "string", "pattern": "a"})


def test_a_stream_of_a_beam_search_is_its_best_text(language):
    best = language.complete("the man", beam=3, max_new_tokens=5)["texts"][0]["text"]
    stream = language.generate("the man", beam=3, max_new_tokens=5)
    assert stream.result is None
    assert list(stream) == [best]
    assert stream.result["texts"][0]["text"] == best


def test_translations_are_those_of_the_command(translator, command):
    texts = ["a house", "the dog", "two dogs"]
    assert translator.translate(texts, beam=4) == command("translate", MARIAN, "--beam", "4", text="\n".join(texts))
    assert translator.translate(texts[0], beam=1) == command("translate", MARIAN, "--beam", "1", texts[0])[0]
    expected = command("translate", MARIAN, "--json", "--scores", "--nbest", "2", text="\n".join(texts), as_json=True)
    assert translator.translate(texts, nbest=2, details=True) == without_line(expected)


def test_inspect_counts_what_the_command_counts(language, command):
    expected = json.loads("\n".join(command("inspect", MODELS / "llama", "--json")))
    found = language.inspect()
    for key in ["dtype", "parameters", "active_parameters", "weight_bytes", "parts"]:
        assert found[key] == expected[key]
    assert (found["kind"], found["family"]) == ("language", "llama")


def test_threads_and_tasks_share_an_engine(language):
    alone = {prompt: language.generate(prompt, max_new_tokens=20).text() for prompt in PROMPTS}
    found = {}

    def work(number):
        prompt = PROMPTS[number % 3]
        found[number] = (prompt, language.generate(prompt, max_new_tokens=20).text())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 9 and all(text == alone[prompt] for prompt, text in found.values())

    async def read(prompt):
        return "".join([piece async for piece in language.generate(prompt, max_new_tokens=20)])

    async def read_all():
        return await asyncio.gather(*[read(prompt) for prompt in PROMPTS * 2])

    assert asyncio.run(read_all()) == [alone[prompt] for prompt in PROMPTS * 2]


def test_streams_that_nobody_reads_do_not_disturb_others(language):
    expected = language.generate("a dog", max_new_tokens=9).text()
    unread = [language.generate("the man", max_new_tokens=30) for _ in range(3)]
    next(unread[0])
    unread[1].close()
    assert list(unread[1]) == []
    assert language.generate("a dog", max_new_tokens=9).text() == expected
    del unread
    assert language.generate("a dog", max_new_tokens=9).text() == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beams": 3}, "expected one of the options .*beam.*, found 'beams'"),
        ({"beam": "3"}, "beam: expected a whole number, found '3'"),
        ({"beam": True}, "beam: expected a whole number, found True"),
        ({"beam": 0}, "beam: expected"),
        ({"top_p": 2.0}, "top_p: expected"),
        ({"nbest": 2, "beam": 2}, "nbest: expected 1 for a stream, found 2"),
        ({"length_penalty_type": "x"}, "length_penalty_type: expected one of"),
    ],
)
def test_options_that_do_not_fit_are_value_errors_that_name_them(language, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        language.generate("the man", **options)
    assert isinstance(caught.value, qkv.UsageError)


def test_errors_are_pythons_too(encoder, language, tmp_path):
    with pytest.raises(OSError, match="there is no such folder") as missing:
        qkv.open(tmp_path / "none")
    assert isinstance(missing.value, qkv.IoError)
    with pytest.raises(qkv.DataError, match="text 1: expected at most"):
        encoder.encode(["a man", "a man " * 1000], max_length=None)
    with pytest.raises(AttributeError, match="encode: expected a text encoder or an image encoder or an encoder of texts and one of images, found a language model"):
        language.encode("a man")
    with pytest.raises(ValueError, match="kind: expected 'encoder' or None, found 'x'"):
        qkv.open(MODELS / "llama", kind="x")
    with pytest.raises(ValueError, match="dtype: expected one of f32, .*, found 'f64'"):
        qkv.open(MODELS / "llama", dtype="f64")


def test_a_language_model_opens_as_an_encoder():
    assert qkv.open(MODELS / "llama", kind="encoder").encode(PROMPTS).shape == (3, 8)


def test_a_name_of_the_hub_is_found_in_the_cache_and_never_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(qkv.IoError, match="org/small: .*; qkv pull org/small downloads it"):
        qkv.open("org/small")
    with pytest.raises(qkv.IoError, match="qkv pull org/adapter downloads it"):
        qkv.open(MODELS / "llama", adapter="org/adapter")
    commit = "0123456789" * 4
    repository = tmp_path / "models--org--small"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / commit).symlink_to(MODELS / "llama")
    found = qkv.open("org/small")
    assert found.inspect()["model"] == str(repository / "snapshots" / commit)
    assert found.generate(PROMPTS[0], max_new_tokens=4).text() == qkv.open(MODELS / "llama").generate(PROMPTS[0], max_new_tokens=4).text()


def test_a_gguf_file_is_a_model(command):
    file = MODELS.parent / "golden_gguf" / "chat.gguf"
    model = qkv.open(file)
    assert isinstance(model, qkv.LanguageModel)
    [expected] = command("generate", file, "--max-new-tokens", 6, "--json", text="a\n", as_json=True)
    stream = model.generate("a", max_new_tokens=6)
    assert stream.text() == expected["texts"][0]["text"] and stream.result["texts"] == expected["texts"]


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                "required": ["city", "days"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "stop"}},
]
QUESTION = [{"role": "user", "content": "Is it warm in Rome?"}]


@pytest.fixture
def tool_model(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "tests" / "apps" / "golden" / "hub" / "SmolLM2-135M", folder)
    shutil.copy(ROOT / "tests" / "jinja" / "templates" / "qwen25_tools.jinja", folder / "chat_template.jinja")
    (folder / "generation_config.json").write_text('{"eos_token_id": [0, 2]}')
    return qkv.open(folder)


def test_answers_call_tools_and_conversations_go_on(tool_model):
    for parallel in (False, True):
        stream = tool_model.chat(QUESTION, tools=TOOLS, tool_choice="weather", parallel_tool_calls=parallel, max_new_tokens=200)
        assert stream.text() == ""
        [call] = stream.tool_calls
        assert call["type"] == "function" and len(call["id"]) == 9 and call["function"]["name"] == "weather"
        assert call["function"]["arguments"]["city"] in ("Rome", "Oslo")
        assert 1 <= call["function"]["arguments"]["days"] <= 9
    assert stream.message == {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": call["id"], "name": "weather", "content": "31 degrees"}
    prompt = tool_model.apply_chat_template([*QUESTION, stream.message, result], tools=TOOLS)
    arguments = json.dumps(call["function"]["arguments"])
    assert f'<tool_call>\n{{"name": "weather", "arguments": {arguments}}}\n</tool_call>' in prompt
    assert "31 degrees" in prompt and '"description": "The weather of a city."' in prompt
    # Arguments may be JSON, as OpenAI's are.
    call["function"]["arguments"] = arguments
    assert tool_model.apply_chat_template([*QUESTION, stream.message, result], tools=TOOLS) == prompt


def test_an_answer_without_calls_is_text(tool_model):
    free = tool_model.chat(QUESTION, max_new_tokens=8)
    stream = tool_model.chat(QUESTION, tools=TOOLS, tool_choice="none", max_new_tokens=8)
    assert stream.text() == free.text() and stream.tool_calls == []
    assert stream.message == {"role": "assistant", "content": free.message["content"]}


def test_calls_are_the_same_for_all_threads(tool_model):
    for _ in range(10):
        stream = tool_model.chat(QUESTION, tools=TOOLS, tool_choice="stop", max_new_tokens=200)
        stream.text()
        barrier, seen = threading.Barrier(4), []

        def read():
            barrier.wait()
            seen.append(stream.tool_calls)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(stream.tool_calls) == 1 and all(calls == stream.tool_calls for calls in seen)
        stream.message["tool_calls"].append("another")
        assert len(stream.tool_calls) == 1


def test_tools_may_be_an_iterator_and_named_as_openai_does(tool_model):
    named = {"type": "function", "function": {"name": "stop"}}
    stream = tool_model.chat(QUESTION, tools=iter(TOOLS), tool_choice=named, max_new_tokens=200)
    assert stream.text() == "" and [call["function"] for call in stream.tool_calls] == [{"name": "stop", "arguments": {}}]


def test_tools_that_cannot_be_called_are_errors(tool_model, tmp_path):
    for tools, choice, message in [
        ([], "required", "tool_choice: expected 'auto' or 'none' without tools, found 'required'"),
        (None, "weather", "tool_choice: expected 'auto' or 'none' without tools, found 'weather'"),
        (TOOLS, None, "tool_choice: expected a text or .*, found None"),
        (TOOLS[0], "auto", "tools: expected a list of dicts, found dict"),
        ("weather", "auto", "tools: expected a list of dicts, found str"),
        ([1], "none", r"tools: \[0\]: expected a dict, found 1"),
        ([{"type": "function", "function": {"name": "a", "description": float("nan")}}], "auto", "tools: expected what JSON can have"),
    ]:
        with pytest.raises(qkv.UsageError, match=message):
            tool_model.chat(QUESTION, tools=tools, tool_choice=choice)
    with pytest.raises(qkv.UsageError, match="tool_choice: expected 'auto', 'none', 'required' or the name of a tool, found 'rain'"):
        tool_model.chat(QUESTION, tools=TOOLS, tool_choice="rain")
    with pytest.raises(qkv.UsageError, match="json_schema: expected none beside tools"):
        tool_model.chat(QUESTION, tools=TOOLS, json_schema={"type": "object"})
    with pytest.raises(qkv.DataError, match=r"tools: \[0\]: expected a member 'type'"):
        tool_model.chat(QUESTION, tools=[{"name": "weather"}])
    shutil.copy(ROOT / "tests" / "jinja" / "templates" / "chatml.jinja", tmp_path / "model" / "chat_template.jinja")
    with pytest.raises(qkv.UsageError, match="tools: expected none, as the model's chat template shows none"):
        qkv.open(tmp_path / "model").chat(QUESTION, tools=TOOLS)


def test_activations_are_of_other_devices(tmp_path):
    with pytest.raises(qkv.UsageError, match="activations: expected f32 on the device cpu, found bf16"):
        qkv.open(MODELS / "bert_texts", activations="bf16")
    exact = qkv.open(MODELS / "bert_texts", device="reference").encode(TEXTS)
    rounded = qkv.open(MODELS / "bert_texts", device="reference", activations="bf16").encode(TEXTS)
    assert np.abs(exact - rounded).max() < 0.05 and not np.array_equal(exact, rounded)
