"""Real clients of other services against `qkv serve`.

    python tests/interop/serve_clients.py build/release/bin/qkv

Needs scripts/packages-pypi.txt from PyPI, and Debian's wrk. Starts a server with the small folders of the tests and checks:
OpenAI's client (models, completions, chats, tools, streams, embeddings, speech, errors), LibreTranslate's, Hugging Face's InferenceClient, the
metrics' format, a client that leaves its stream, several hundred mixed requests at a time against the command line's results,
64 connections of wrk, and every route of the OpenAPI document with schemathesis: no answer 5xx, none that the document does not
describe.
"""

import json
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import running_server

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = {"marian": ROOT / "tests/pipelines/golden/marian"} | {
    name: ROOT / "tests/models/golden" / name for name in ("llama", "bert_texts", "bert_tokens", "bert_spans", "bert_masked", "vit_images")} | {
    "whisper": ROOT / "tests/apps/golden/hub/whisper-tiny"}
CHAT_TEMPLATE = ("{{ bos_token }}{% for message in messages %}{{ ' two ' if message.role == 'user' else ' three ' }}{{ message.content }}"
                 "{{ eos_token }}{% endfor %}{% if add_generation_prompt %} three {% endif %}")
TEXTS = ["twenty-one", "forty", "three hundred forty-two", "one", "ninety-nine", "two hundred"]
USER = [{"role": "user", "content": "a red dog"}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {}}}
failures = 0


def check(good, what):
    global failures
    print(f"{'ok  ' if good else 'FAIL'} {what}")
    failures += not good


def chat_folder(parent):
    """The folder of the language model, with a chat template and room for 4,000 tokens; beside it two whose vocabulary has all
    bytes, the second with a template that shows tools."""
    for name, template in (("bytes", CHAT_TEMPLATE), ("tools", (ROOT / "tests/jinja/templates/qwen25_tools.jinja").read_text())):
        FOLDERS[name] = Path(parent) / name
        shutil.copytree(ROOT / "tests/apps/golden/hub/SmolLM2-135M", FOLDERS[name])
        (FOLDERS[name] / "chat_template.jinja").write_text(template)
    (FOLDERS["tools"] / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 2]}))
    folder = Path(parent) / "chat"
    shutil.copytree(FOLDERS["llama"], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 4000}))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return folder


def post(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.loads(response.read())


def metric(url, name):
    from prometheus_client.parser import text_string_to_metric_families
    text = urllib.request.urlopen(url + "/metrics", timeout=30).read().decode()
    return sum(sample.value for family in text_string_to_metric_families(text) for sample in family.samples if sample.name == name)


def lines_of(qkv, command, folder, lines, *options):
    done = subprocess.run([qkv, command, str(FOLDERS[folder]), "--json", *options], input="\n".join(lines) + "\n",
                          capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [{key: value for key, value in one.items() if key != "line"} for one in found]


def openai_client(url):
    import openai
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    check({model.id for model in client.models.list()} == set(FOLDERS), "openai: models.list")
    asked = dict(model="llama", prompt="a red dog", max_tokens=12, seed=3, logprobs=2)
    whole = client.completions.create(**asked)
    check(whole.choices[0].text != "" and whole.usage.completion_tokens > 0, "openai: completions")
    check(len(whole.choices[0].logprobs.top_logprobs[0]) >= 2, "openai: top_logprobs")
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**asked, stream=True))
    check(streamed == whole.choices[0].text, "openai: the stream's text is the whole text")
    floats = client.embeddings.create(model="bert_texts", input=["a red dog"], encoding_format="float").data[0].embedding
    base64 = client.embeddings.create(model="bert_texts", input=["a red dog"]).data[0].embedding
    check(as_floats(floats) == as_floats(base64), "openai: embeddings as floats and base64")
    for error, call in ((openai.NotFoundError, lambda: client.completions.create(model="gpt-4", prompt="a")),
                        (openai.BadRequestError, lambda: client.completions.create(model="llama", prompt="a", presence_penalty=1)),
                        (openai.BadRequestError, lambda: client.chat.completions.create(model="llama", messages=USER)),
                        (openai.BadRequestError, lambda: client.chat.completions.create(model="chat", messages=USER, tools=[TOOL]))):
        try:
            call()
            check(False, f"openai: {error.__name__}")
        except error as found:
            check(bool(found.message), f"openai: {error.__name__}: {found.body['message'][:60]}")


def openai_chats(url):
    import openai
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    asked = dict(model="chat", messages=[{"role": "system", "content": "good"}, *USER], max_completion_tokens=12, seed=3, n=2,
                 temperature=0.8, logprobs=True, top_logprobs=2)
    whole = client.chat.completions.create(**asked)
    texts = [choice.message.content for choice in whole.choices]
    check(len(set(texts)) == 2 and whole.choices[0].message.role == "assistant" and whole.usage.completion_tokens > 2, "openai: chat")
    tokens = whole.choices[0].logprobs.content
    check("".join(token.token for token in tokens) == texts[0] and len(tokens[0].top_logprobs) == 2, "openai: chat, logprobs")
    check(bytes(tokens[0].bytes).decode() == tokens[0].token, "openai: chat, a token's bytes")
    streamed, roles, reasons, usage = ["", ""], [[], []], [None, None], None
    for chunk in client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            roles[choice.index].append(choice.delta.role)
            streamed[choice.index] += choice.delta.content or ""
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    check(streamed == texts and usage.total_tokens == whole.usage.total_tokens, "openai: chat, the stream's texts are the whole texts")
    check(all(role[0] == "assistant" and set(role[1:]) <= {None} for role in roles), "openai: chat, the role comes first and once")
    check(reasons == [choice.finish_reason for choice in whole.choices], "openai: chat, finish_reason")
    word = texts[0].split()[-1]
    stopped = client.chat.completions.create(**asked | {"n": 1, "stop": word}).choices[0]
    check(stopped.message.content == texts[0][:texts[0].index(word)] and stopped.finish_reason == "stop", "openai: chat, stop")
    with client.chat.completions.stream(**asked | {"n": 1, "stop": word}) as stream:
        content = [event.delta for event in stream if event.type == "content.delta"]
        check("".join(content) == stream.get_final_completion().choices[0].message.content == stopped.message.content,
              "openai: chat, its stream helper")
    # The answer goes back as the client holds it; parts; variables of the template.
    more = client.chat.completions.create(model="chat", messages=[*USER, whole.choices[0].message, {"role": "user", "content": [
        {"type": "text", "text": "a dog"}]}], max_tokens=4, temperature=0, extra_body={"chat_template_kwargs": {"enable_thinking": False}})
    check(more.usage.prompt_tokens > whole.usage.prompt_tokens, "openai: chat, a second turn")


def openai_speech(url, qkv):
    import openai
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    talk = ROOT / "tests/apps/golden/audio/talk.flac"
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([qkv, "transcribe", str(FOLDERS["whisper"]), str(talk), "--language", "de", "--words", "--format", "json", "--output",
                        scratch], check=True, capture_output=True)
        known = json.loads((Path(scratch) / "talk.json").read_text())
    asked = dict(model="whisper", file=talk, language="de")
    found = client.audio.transcriptions.create(**asked, response_format="verbose_json", timestamp_granularities=["word", "segment"])
    check([(one.text, one.start, one.end) for one in found.segments] == [(one["text"], one["begin"], one["end"]) for one in known["segments"]],
          "openai: transcriptions, segments")
    check([(word.word, word.start) for word in found.words] == [(word["text"], word["begin"]) for one in known["segments"]
                                                                for word in one["words"]], "openai: transcriptions, words")
    check(client.audio.transcriptions.create(**asked).text == known["text"] == found.text, "openai: transcriptions")
    streamed = [event for event in client.audio.transcriptions.create(**asked, stream=True)]
    check("".join(event.delta for event in streamed[:-1]) == streamed[-1].text == known["text"], "openai: transcriptions, streamed")
    check(client.audio.transcriptions.create(**asked, response_format="srt").startswith("1\n00:"), "openai: transcriptions, srt")
    check(client.audio.translations.create(model="whisper", file=talk).text != "", "openai: translations")
    try:
        client.audio.transcriptions.create(**asked | {"language": "klingon"})
        check(False, "openai: transcriptions, BadRequestError")
    except openai.BadRequestError as error:
        check("klingon" in error.body["message"], "openai: transcriptions, BadRequestError")


def openai_answers_in_json(url):
    from typing import Literal

    import openai
    import pydantic

    class Person(pydantic.BaseModel):
        name: Literal["Ada", "Bob"]
        age: int = pydantic.Field(ge=0, le=99)
        known: list[bool] = pydantic.Field(max_length=2)

    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    asked = dict(model="bytes", messages=USER, max_tokens=200, temperature=0)
    person = client.chat.completions.parse(**asked, response_format=Person).choices[0].message.parsed
    check(isinstance(person, Person), f"openai: chat, parsed as {person}")
    whole = client.chat.completions.create(**asked | {"max_tokens": 400}, response_format={"type": "json_object"}).choices[0]
    check(whole.message.content.startswith("{"), f"openai: chat, an object, {whole.finish_reason}")


def openai_calls_of_tools(url):
    from typing import Literal

    import openai
    import pydantic

    class Weather(pydantic.BaseModel):
        city: Literal["Rome", "Oslo"]
        days: int = pydantic.Field(ge=1, le=7)

    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    asked = dict(model="tools", messages=USER, max_tokens=300, temperature=50, seed=3, tool_choice="required",
                 tools=[openai.pydantic_function_tool(Weather)])
    answer = client.chat.completions.parse(**asked).choices[0]
    calls = answer.message.tool_calls
    check(answer.finish_reason == "tool_calls" and calls and all(isinstance(call.function.parsed_arguments, Weather) for call in calls),
          f"openai: chat, {len(calls or [])} calls of tools, parsed")
    with client.chat.completions.stream(**asked) as stream:
        done = [event.parsed_arguments for event in stream if event.type == "tool_calls.function.arguments.done"]
        streamed = stream.get_final_completion().choices[0].message.tool_calls
    check([call.function.arguments for call in streamed] == [call.function.arguments for call in calls] and len(done) == len(calls),
          "openai: chat, calls in a stream")
    results = [{"role": "tool", "tool_call_id": call.id, "content": "warm"} for call in calls]
    more = client.chat.completions.create(**asked | {"messages": [*USER, answer.message, *results], "tool_choice": "auto", "max_tokens": 4})
    check(more.usage.prompt_tokens > 0, "openai: chat, the results of calls")


def libretranslate_client(url, qkv):
    from libretranslatepy import LibreTranslateAPI
    client = LibreTranslateAPI(url + "/")
    expected = lines_of(qkv, "translate", "marian", ["twenty-one & <b>"])[0]["translation"]
    check(client.translate("twenty-one & <b>", "en", "de") == expected, "libretranslatepy: translate")
    check(isinstance(client.languages(), list), "libretranslatepy: languages")


def inference_client(url):
    from huggingface_hub import InferenceClient
    try:
        vector = InferenceClient(model=url + "/embed").feature_extraction("a red dog")
        direct = post(url, "/embed", {"inputs": "a red dog"})[0]
        check(as_floats(list(map(float, vector[0]))) == as_floats(direct), "huggingface_hub: feature_extraction")
        # TEI answers one text by a flat list, of which this client takes the first element.
        best = InferenceClient(model=url + "/predict").text_classification("a red dog")
        check(best.label == post(url, "/predict", {"inputs": "a red dog"})[0]["label"], "huggingface_hub: text_classification")
        client = InferenceClient(base_url=url)
        asked = dict(model="chat", messages=USER, max_tokens=12, temperature=0.8, seed=4)
        whole = client.chat_completion(**asked, logprobs=True, top_logprobs=1, n=2)
        check(whole.choices[0].message.content != "" and len(whole.choices) == 2 and whole.usage.prompt_tokens == 7, "huggingface_hub: chat_completion")
        check(whole.choices[0].logprobs.content[0].top_logprobs[0].logprob <= 0, "huggingface_hub: chat_completion, logprobs")
        text = "".join(chunk.choices[0].delta.content or "" for chunk in client.chat_completion(**asked, stream=True) if chunk.choices)
        check(text == whole.choices[0].message.content, "huggingface_hub: chat_completion, the stream's text is the whole text")
    except Exception as error:  # pylint: disable=broad-except
        check(False, f"huggingface_hub: {type(error).__name__}: {error}")


def as_floats(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def leaving_client(url):
    before = metric(url, "qkv_cancelled_total") + metric(url, "qkv_done_total")
    cancelled = metric(url, "qkv_cancelled_total")
    body = json.dumps({"model": "marian", "text": [text * 3 for text in TEXTS] * 100}).encode()
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"POST /v1/translate HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.05)
    for _ in range(500):
        if metric(url, "qkv_cancelled_total") + metric(url, "qkv_done_total") >= before + 600:
            break
        time.sleep(0.02)
    check(metric(url, "qkv_cancelled_total") > cancelled, "a client that leaves cancels its 600 texts")


def mixed_load(url, qkv):
    work = []
    translations = lines_of(qkv, "translate", "marian", TEXTS, "--scores")
    work += [("/v1/translate", {"text": text, "scores": True}, {"model": "marian", "translations": [found]})
             for text, found in zip(TEXTS, translations)]
    labels = lines_of(qkv, "classify", "bert_texts", TEXTS)
    work += [("/v1/classify", {"text": text}, {"model": "bert_texts", "results": [found]}) for text, found in zip(TEXTS, labels)]
    tags = lines_of(qkv, "tag", "bert_tokens", TEXTS)
    work += [("/v1/tag", {"text": text}, {"model": "bert_tokens", "results": [found]}) for text, found in zip(TEXTS, tags)]
    answers = lines_of(qkv, "answer", "bert_spans", TEXTS, "--question", "the dog", "--top", "2")
    work += [("/v1/answer", {"question": "the dog", "text": text, "top": 2}, {"model": "bert_spans", "results": [found]})
             for text, found in zip(TEXTS, answers)]
    scores = lines_of(qkv, "score", "llama", TEXTS)
    work += [("/v1/score", {"model": "llama", "text": text}, {"model": "llama", "results": [found]}) for text, found in zip(TEXTS, scores)]
    wrong, lock = [], threading.Lock()

    def client(seed):
        draw = random.Random(seed)
        for _ in range(40):
            path, body, expected = draw.choice(work)
            found = post(url, path, body)
            if found != expected:
                with lock:
                    wrong.append((path, body, found, expected))

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not wrong, f"640 mixed requests of 16 clients equal the command line's results{'' if not wrong else f': {wrong[0]}'}")
    embedded = lines_of(qkv, "embed", "bert_texts", TEXTS)
    vectors = [one["embedding"] for one in post(url, "/v1/embeddings", {"model": "bert_texts", "input": TEXTS})["data"]]
    check([as_floats(one["vector"]) for one in embedded] == [as_floats(one) for one in vectors], "embeddings have the command's bits")


def load_of_wrk(url):
    """64 connections that embed, then 64 that stream completions: no error, no answer but 200."""
    requests = {"/v1/embeddings": {"model": "bert_texts", "input": "a red dog"},
                "/v1/completions": {"model": "llama", "prompt": "a red dog", "max_tokens": 8, "stream": True}}
    for path, body in requests.items():
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            script.write(f"wrk.method = 'POST'\nwrk.body = '{json.dumps(body)}'\nwrk.headers['Content-Type'] = 'application/json'\n")
            script.flush()
            done = subprocess.run(["wrk", "-t", "1", "-c", "64", "-d", "3s", "-s", script.name, url + path], capture_output=True, text=True)
        rate = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Requests/sec:")]
        good = done.returncode == 0 and rate and float(rate[0]) > 0 and "Non-2xx" not in done.stdout and "Socket errors" not in done.stdout
        check(good, f"wrk: 64 connections to {path}, {rate[0] if rate else done.stdout + done.stderr} requests/s")


def described_routes(url):
    command = [str(Path(sys.executable).parent / "schemathesis"), "run", url + "/openapi.json", "--url", url, "--max-examples", "25",
               "--seed", "1", "--phases", "examples,coverage,fuzzing", "--checks",
               "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
               "--exclude-path", "/v1/reload", "--generation-database", "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    check(done.returncode == 0, "schemathesis: every route is as the OpenAPI document says")
    if done.returncode != 0:
        print(done.stdout[-12000:], done.stderr[-2000:])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    qkv = sys.argv[1]
    scratch = tempfile.TemporaryDirectory()
    FOLDERS["chat"] = chat_folder(scratch.name)
    process, url = running_server.start(qkv, FOLDERS)
    try:
        openai_client(url)
        openai_chats(url)
        openai_answers_in_json(url)
        openai_calls_of_tools(url)
        openai_speech(url, qkv)
        libretranslate_client(url, qkv)
        inference_client(url)
        leaving_client(url)
        mixed_load(url, qkv)
        load_of_wrk(url)
        described_routes(url)
        check(process.poll() is None, "the server still runs")
    finally:
        process.terminate()
        check(process.wait(timeout=60) == 0, "SIGTERM ends the server with status 0")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
