"""Tasks of encoders and language models: results are those of the command."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import MARIAN, MODELS, ROOT, expect_interrupted, expect_other_threads_run
from test_models import PROMPTS, TEXTS, without_line

import qkv

PACKAGE = Path(qkv.__file__).parent


def lines_of(texts):
    return "\n".join(texts)


def test_classifications_are_those_of_the_command(encoder, command):
    expected = command("classify", MODELS / "bert_texts", "--json", text=lines_of(TEXTS), as_json=True)
    assert encoder.classify(TEXTS) == [one["labels"] for one in expected]
    assert encoder.classify(TEXTS[0], top=1) == expected[0]["labels"][:1]
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[0])]
    expected = command(
        "classify", MODELS / "bert_texts", "--json", "--pairs", text=lines_of("\t".join(pair) for pair in pairs), as_json=True
    )
    assert encoder.classify(pairs) == [one["labels"] for one in expected]
    with pytest.raises(qkv.UsageError, match="expected texts or pairs of texts, found both"):
        encoder.classify([TEXTS[0], pairs[0]])


def test_labels_are_those_of_the_command(command, encoder):
    folder = ROOT / "tests" / "apps" / "golden" / "hub" / "nli-deberta-v3-small"
    model, texts = qkv.open(folder), ["a red dog", "the man"]
    flags = ["--labels", "red,a man", "--hypothesis", "It is {}", "--multi-label"]
    expected = command("classify", folder, "--json", *flags, text=lines_of(texts), as_json=True)
    assert model.classify(texts, labels=["red", "a man"], hypothesis="It is {}", multi_label=True) == [one["labels"] for one in expected]
    assert model.classify(texts[0], labels=["red", "a man"], top=1)[0]["label"] in ("red", "a man")
    with pytest.raises(qkv.UsageError, match="multi_label: expected labels beside it, found none"):
        model.classify(texts, multi_label=True)
    with pytest.raises(qkv.DataError, match="expected a model of natural language inference"):
        encoder.classify(texts, labels=["red"])


def test_masks_are_filled_as_by_the_command(command):
    model = qkv.open(MODELS / "bert_masked")
    texts = [f"a man {model.mask_token} in the house.", f"the {model.mask_token} dog {model.mask_token}"]
    expected = command("fill-mask", MODELS / "bert_masked", "--json", "--top", "3", text=lines_of(texts), as_json=True)
    assert model.fill_mask(texts, count=3) == [one["masks"] for one in expected]
    assert [len(masks) for masks in model.fill_mask(texts)] == [1, 2]
    with pytest.raises(qkv.DataError, match=r"text 1: expected at least one \[MASK\], found none"):
        model.fill_mask([texts[0], "a man"])


def test_sparse_embeddings_are_those_of_the_command(command, encoder):
    model = qkv.open(MODELS / "bert_masked")
    flags = ["--sparse", "--top", "4", "--prompt", "a red "]
    expected = command("embed", MODELS / "bert_masked", "--json", *flags, text=lines_of(TEXTS), as_json=True)
    assert model.encode_sparse(TEXTS, top=4, prompt="a red ") == [one["weights"] for one in expected]
    assert model.encode_sparse(TEXTS[0], top=4, prompt="a red ") == expected[0]["weights"]
    with pytest.raises(qkv.UsageError, match="top: expected at least 1, found 0"):
        model.encode_sparse(TEXTS, top=0)
    with pytest.raises(qkv.DataError, match="expected a model with a masked-language head, found none"):
        encoder.encode_sparse(TEXTS)


def test_tags_are_those_of_the_command(command):
    model = qkv.open(MODELS / "bert_tokens")
    for flags, options in [([], {}), (["--words"], {"words": True})]:
        expected = command("tag", MODELS / "bert_tokens", "--json", *flags, text=lines_of(TEXTS), as_json=True)
        assert model.tag(TEXTS, **options) == [one["words" if options else "tokens"] for one in expected]


def test_answers_are_those_of_the_command(command):
    model = qkv.open(MODELS / "bert_spans")
    options = ["--question", "the dog?", "--top", "3", "--window", "14", "--shared", "2", "--unanswerable"]
    expected = command("answer", MODELS / "bert_spans", "--json", *options, text=lines_of(TEXTS), as_json=True)
    found = model.answer("the dog?", TEXTS, top=3, window=14, shared=2, unanswerable=True)
    assert found == [one["answers"] for one in expected]
    assert model.answer("the dog?", TEXTS[0], top=3, window=14, shared=2, unanswerable=True) == found[0]
    assert model.answer(["the dog?", "a man?"], TEXTS[0])[0] == model.answer("the dog?", TEXTS[0])
    text = "é€ the man 😀 sleeps"
    assert all(text[one["begin"] : one["end"]] == one["text"] for one in model.answer("a man?", text, top=20))
    with pytest.raises(qkv.UsageError, match="answer: expected a text, or one for each of 1 questions, found 2"):
        model.answer(["the dog?"], TEXTS[:2])
    with pytest.raises(qkv.UsageError, match="unknown option.*width|width"):
        model.answer("the dog?", TEXTS[0], width=3)
    with pytest.raises(qkv.DataError, match="text 1: expected text, found none"):
        model.answer("the dog?", [TEXTS[0], " "])


def test_positions_in_texts_are_characters(encoder):
    tagger = qkv.open(MODELS / "bert_tokens")
    text = "é€ a man 😀 sleeps"
    tokens = tagger.tag(text, words=True)
    assert [text[one["begin"] : one["end"]] for one in tokens] == [one["text"] for one in tokens]
    assert tokens[-1]["text"] == "sleeps" and tokens[-1]["end"] == len(text)
    found = encoder.tokenize(text, "der Höhe nach")
    spans = [(text, "der Höhe nach")[k][begin:end] for k, (begin, end) in zip(found["text_index"], found["offsets"]) if k >= 0]
    assert "man" in spans and "der"[:1] in "".join(spans)
    assert found["offsets"][-2][1] == len("der Höhe nach")


def test_scores_are_those_of_the_command(language, translator, command):
    expected = command("score", MODELS / "llama", "--json", text=lines_of(PROMPTS), as_json=True)
    assert language.score(PROMPTS) == without_line(expected)
    sources, targets = ["a house", "the dog"], ["two", "dog"]
    pairs = lines_of("\t".join(pair) for pair in zip(sources, targets))
    assert translator.score(sources, targets) == without_line(command("score", MARIAN, "--json", text=pairs, as_json=True))
    assert translator.score("a house", "two") == translator.score(sources, targets)[0]
    with pytest.raises(qkv.UsageError, match="targets: expected one for each of 2 sources, found 1"):
        translator.score(sources, targets[:1])


def linked(target, *folders):
    """A folder with the files of others."""
    target.mkdir()
    for folder in folders:
        for one in folder.iterdir():
            if not (target / one.name).exists():
                (target / one.name).symlink_to(one)
    return target


def test_reranking_orders_texts_by_the_commands_scores(tmp_path, encoder, command):
    folder = linked(tmp_path / "reranker", MODELS / "xlm-roberta_texts", MODELS / "bert_texts")
    expected = command("rerank", folder, "--query", "a man", "--json", text=lines_of(TEXTS), as_json=True)
    expected = [one["score"] for one in expected]
    found = qkv.open(folder).rerank("a man", TEXTS)
    assert {one["index"]: np.float32(one["score"]) for one in found} == dict(enumerate(np.float32(expected)))
    assert [one["score"] for one in found] == sorted((one["score"] for one in found), reverse=True)
    assert len(set(expected)) == 3 and found[0]["text"] == TEXTS[int(np.argmax(expected))]
    assert qkv.open(folder).rerank("a man", TEXTS, top=1) == found[:1]
    with pytest.raises(qkv.DataError, match="label"):
        encoder.rerank("a man", TEXTS)


def test_tokens_are_those_of_the_command(language, translator, command):
    text = "the red dog runs"
    expected = without_line(command("tokenize", MODELS / "llama", "--json", text=text, as_json=True))[0]
    assert language.tokenize(text) == expected
    assert language.decode(expected["ids"]).strip() == text
    ids = translator.tokenize("two dogs", target=True)["ids"]
    assert translator.decode(ids) == "two dogs"


@pytest.mark.parametrize(("folder", "source"), [(MODELS / "bert_texts", "a man sleeps"), (MODELS / "llama", "the man"), (MARIAN, "a dog")])
def test_attention_has_the_numbers_and_the_page_of_the_command(folder, source, command, tmp_path):
    command("attention", folder, "--source", source, "--out", tmp_path / "command.json")
    expected = json.loads((tmp_path / "command.json").read_text())
    found = qkv.open(folder).attention(source)
    assert found.source_tokens == expected["source_tokens"]
    assert [(layer.part, layer.index) for layer in found.layers] == [(one["part"], one["layer"]) for one in expected["layers"]]
    for layer, one in zip(found.layers, expected["layers"]):
        assert layer.weights.dtype == np.float32
        assert np.array_equal(layer.weights, np.array(one["heads"], dtype=np.float32))
        assert np.allclose(layer.weights.sum(-1), 1, atol=1e-5)
    found.save(tmp_path / "found.html")
    command("attention", folder, "--source", source, "--out", tmp_path / "command.html")
    assert (tmp_path / "found.html").read_bytes() == (tmp_path / "command.html").read_bytes()
    assert found._repr_html_().startswith('<iframe srcdoc="&lt;!')
    assert "<svg" in found.svg()[:100]
    head = found.svg(part=found.layers[0].part, layer=0, head=1, dark=True)
    assert head.count("crispEdges") == 1 and "layer 1, head 2" in head and "#0d1117" in head
    with pytest.raises(qkv.UsageError, match="part: expected one of encoder, decoder, cross, found 'all'"):
        found.svg(part="all")


def test_weights_outlive_the_report(encoder):
    weights = encoder.attention("a man sleeps").layers[0].weights
    assert np.allclose(weights.sum(-1), 1, atol=1e-5)


def test_images_have_vectors_labels_and_attention(command, tmp_path):
    folder = MODELS / "vit_images"
    model = qkv.open(folder)
    images = [str(ROOT / "tests" / "data" / "golden" / "images" / name) for name in ["whole.jpg", "resized_tall_30x23.png"]]
    expected = command("classify", folder, "--json", *images, as_json=True)
    assert model.classify(images) == [one["labels"] for one in expected]
    lines = command("embed", folder, *images)
    expected = np.array([line.split("\t")[1].split() for line in lines], dtype=np.float32)
    assert model.encode(images).tobytes() == expected.tobytes()
    found = model.attention(images[0])
    assert found.layers[0].weights.shape[-1] == len(found.source_tokens)
    assert np.allclose(found.layers[0].weights.sum(-1), 1, atol=1e-5)
    with pytest.raises(OSError, match="none.png"):
        model.attention(tmp_path / "none.png")


def test_images_and_texts(command):
    folder = ROOT / "tests" / "apps" / "golden" / "hub" / "clip-vit-base-patch32"
    model = qkv.open(folder)
    images = [str(ROOT / "tests" / "data" / "golden" / "images" / name) for name in ["rgb.png", "gray.png"]]
    assert isinstance(model, qkv.DualEncoder) and "clip" in repr(model)
    expected = command("embed", folder, "--images", "--normalize", *images)
    expected = np.array([line.split("\t")[1].split() for line in expected], dtype=np.float32)
    vectors = model.encode_images(images, normalize_embeddings=True)
    assert vectors.tobytes() == expected.tobytes()
    texts = ["a photo of a cat", "the man's dog"]
    expected = np.array([line.split() for line in command("embed", folder, *texts)], dtype=np.float32)
    assert model.encode(texts).tobytes() == expected.tobytes()
    assert model.encode("a photo of a cat").shape == (12,)
    expected = command("classify", folder, "--json", "--labels", "cat, dog", "--hypothesis", "the {}", *images, as_json=True)
    assert model.classify(images, ["cat", "dog"], hypothesis="the {}") == [one["labels"] for one in expected]
    assert len(model.classify(images[0], ["cat", "dog"], top=1)) == 1
    assert model.images.attention(images[0]).layers and model.texts.attention("a cat").layers
    assert model.texts.tokenize("a cat")["tokens"][0] == "<|startoftext|>"
    with pytest.raises(qkv.UsageError, match="twice"):
        model.classify(images[0], ["cat", "cat"])
    with pytest.raises(AttributeError, match="expected a text encoder, found an encoder of texts and one of images"):
        model.tag("a")


def test_images_are_in_prompts_and_messages():
    model = qkv.open(ROOT / "tests" / "apps" / "golden" / "hub" / "SmolVLM-256M-Instruct")
    rgb, gray = (str(ROOT / "tests/data/golden/images" / name) for name in ("rgb.png", "gray.png"))
    first = model.generate("the man <image> runs", images=[rgb], max_new_tokens=5).text()
    assert first == model.generate("the man <image> runs", images=[Path(rgb)], max_new_tokens=5).text()
    assert first != model.generate("the man <image> runs", images=[gray], max_new_tokens=5).text()

    def messages(path):
        return [{"role": "user", "content": [{"type": "image", "path": path}, {"type": "text", "text": "the man"}]}]

    prompt = model.apply_chat_template(messages(rgb))
    assert prompt.count("<image>") == 1
    answer = model.chat(messages(rgb), sample=False, max_new_tokens=5).text()
    assert answer != model.chat(messages(gray), sample=False, max_new_tokens=5).text()
    with pytest.raises(qkv.DataError, match="expected <image> for each of 0 images"):
        model.generate("the <image>").text()
    with pytest.raises(qkv.UsageError, match="without \"path\""):
        model.chat([{"role": "user", "content": [{"type": "image"}]}])
    with pytest.raises(qkv.UsageError, match="beside token ids"):
        model.generate([1, 2], images=[rgb])
    with pytest.raises(qkv.DataError, match="reads no images"):
        qkv.open(MODELS / "llama").generate("a", images=[rgb])


def test_a_chat_is_a_prompt_of_the_template(tmp_path, language):
    folder = linked(tmp_path / "chat", MODELS / "llama")
    messages = [{"role": "user", "content": "the man"}, {"role": "assistant", "content": "sleeps"}, {"role": "user", "content": "a dog"}]
    with pytest.raises(qkv.DataError, match="chat_template"):
        qkv.open(folder).chat(messages)
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m.content }} and {% endfor %}{% if loud %}red{% endif %}"
    )
    model = qkv.open(folder)
    assert model.apply_chat_template(messages) == "the man and sleeps and a dog and "
    prompt = model.apply_chat_template(messages, template_variables={"loud": True})
    assert prompt == "the man and sleeps and a dog and red"
    answer = model.chat(messages, template_variables={"loud": True}, max_new_tokens=6).text()
    assert answer and answer == language.generate(language.tokenize(prompt)["ids"], max_new_tokens=6).text()
    with pytest.raises(ValueError, match="expected at least one message"):
        model.chat([])


def test_several_threads_encode_and_generate_at_once(encoder, language):
    vectors = encoder.encode(TEXTS)
    text = language.generate("the man", max_new_tokens=15).text()
    failed = []

    def work():
        for _ in range(5):
            if encoder.encode(TEXTS).tobytes() != vectors.tobytes():
                failed.append("vectors")
            if language.generate("the man", max_new_tokens=15).text() != text:
                failed.append("text")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_other_threads_run_while_one_computes(encoder):
    expect_other_threads_run(lambda: encoder.encode(TEXTS * 4000))


@pytest.mark.parametrize("work", ["encode", "generate"])
def test_ctrl_c_ends_a_computation(work):
    program = f"""
import signal, sys, qkv
model = qkv.open({str(MODELS / ("bert_texts" if work == "encode" else "llama"))!r})
print("ready", flush=True)
try:
    while True:
        if {work!r} == "encode":
            model.encode(["a man sleeps in the house"] * 500000)
        else:
            model.complete(["the man"] * 20000, max_new_tokens=30)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    expect_interrupted(program, "interrupted")


def test_a_forked_child_uses_the_model(encoder, language):
    vectors = encoder.encode(TEXTS)  # helper threads exist now
    text = language.generate("the man", max_new_tokens=8).text()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        same = encoder.encode(TEXTS).tobytes() == vectors.tobytes()
        same = same and language.generate("the man", max_new_tokens=8).text() == text
        os.write(writing, b"same" if same else b"other")
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 10) == b"same"
    os.close(reading)
    assert os.waitpid(child, 0)[1] == 0


def test_the_stubs_describe_the_extension():
    import ast

    tree = ast.parse((PACKAGE / "_qkv.pyi").read_text())
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"Tensor", "Variable", "Tape", "Linear", "AdamW"} <= classes and {"softmax", "train"} <= functions
    assert (PACKAGE / "py.typed").exists()
    assert not [name for name in qkv.__all__ if not getattr(qkv, name).__doc__ and name != "__version__"]


def test_all_versions_are_one(command):
    assert command("version") == [f"qkv {qkv.__version__}"]
    cmake = (ROOT / "CMakeLists.txt").read_text()
    assert f"project(qkv VERSION {qkv.__version__} " in cmake


def test_the_interpreter_ends_without_a_warning(tmp_path):
    program = f"""
import threading
import numpy as np
import qkv
model = qkv.open({str(MODELS / "llama")!r})
stream = model.generate("the man", max_new_tokens=20)
next(stream)
encoder = qkv.open({str(MODELS / "bert_texts")!r})
threading.Thread(target=lambda: encoder.encode(["a man"])).start()
weights = encoder.attention("a man").layers[0].weights
tensor = qkv.Tensor(np.zeros(3, np.float32))
array = qkv.Tensor([1.0]).numpy()
module = qkv.nn.Linear(inputs=2, outputs=2)
class Kept(qkv.search.Constraint):
    def apply(self, context, next): pass
kept = model.generate("the man", constraints=[Kept()])
print(qkv.softmax(tensor))
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("<qkv.Variable f32 [3]") and done.stderr == ""


def test_too_much_memory_is_a_memory_error():
    with pytest.raises(MemoryError):
        qkv.Tensor.empty([1 << 50])
