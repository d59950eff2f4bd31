"""Modules, options, optimizers and constraints; the examples print what those in C++ print."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import MODELS, ROOT

import qkv
from qkv import models, nn, optim

EXAMPLES = sorted((ROOT / "examples" / "python").glob("*.py"))
FOLDERS = {"05_bert_pair": MODELS / "bert_base", "07_constraint": MODELS / "llama"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_its_twin_in_cpp_prints(example, tmp_path):
    twins = os.environ.get("QKV_EXAMPLES")
    if not twins:
        pytest.skip("needs QKV_EXAMPLES, the folder of the programs of examples/")
    if example.stem == "03_train" and not os.environ.get("QKV_LONG_TESTS"):
        pytest.skip("needs QKV_LONG_TESTS=1, and half a minute")
    arguments = [str(FOLDERS[example.stem])] if example.stem in FOLDERS else []

    def run(*command):
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout

    expected = run(str(Path(twins) / f"example_{example.stem}"), *arguments)
    assert run(sys.executable, str(example), *arguments) == expected
    assert len(expected) > 10


def test_there_is_an_example_for_each_in_cpp():
    assert [path.stem for path in EXAMPLES] == sorted(path.stem for path in (ROOT / "examples").glob("*.cc"))


def test_options_have_defaults_names_and_checks():
    layer = nn.LayerOptions(d_model=8, heads=2, d_ff=16, attention=dict(softcap=2.0, positions=dict(kind="rotary")))
    assert layer.d_ff == 16 and layer.dropout == 0 and layer.norm == "post"
    assert layer.attention.positions.kind == "rotary" and layer.attention.positions.rotary_base == 10000
    layer.norm = "pre"
    assert layer["norm"] == "pre"
    assert "heads=1" in nn.LayerOptions.__doc__
    for make, message in [
        (lambda: nn.LayerOptions(d_modell=8), "LayerOptions: expected one of the options d_model, .*, found 'd_modell'"),
        (lambda: nn.LayerOptions(norm="first"), "LayerOptions.norm: expected one of post, pre, output, both, found 'first'"),
        (lambda: nn.LayerOptions(heads=1.5), "LayerOptions.heads: expected a whole number, found 1.5"),
        (lambda: nn.LayerOptions(attention=dict(positions=dict(kind=3))), "LayerOptions.attention.positions.kind: expected a string"),
        (lambda: nn.StackOptions(layers=[dict(heads="2")]), r"StackOptions.layers\[0\].heads: expected a whole number"),
        (lambda: nn.Linear(inputs=0, outputs=2), "inputs|expected"),
        (lambda: nn.EncoderLayer(d_model=8, heads=3), "heads"),
    ]:
        with pytest.raises(qkv.UsageError, match=message):
            make()
    with pytest.raises(AttributeError, match="found 'd_modell'"):
        layer.d_modell = 3


def test_a_linear_layer_and_a_norm_are_numpys():
    x = np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32)
    linear, norm = nn.Linear(inputs=8, outputs=3), nn.Norm(features=8)
    nn.initialise(linear, seed=2)
    nn.initialise(norm, seed=2)
    linear.bias.value = np.array([1, 2, 3], np.float32)
    weight = linear.weight.value.numpy()
    np.testing.assert_allclose(linear(x).numpy(), x.astype(np.float64) @ weight.T + [1, 2, 3], atol=2e-6)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(norm(x).numpy(), expected, atol=5e-6)
    with pytest.raises(qkv.ShapeError, match=r"expected values \[3\], found \[4\]"):
        linear.bias.value = np.zeros(4, np.float32)


class Pair(nn.Module):
    def __init__(self):
        self.layers = [nn.Linear(inputs=4, outputs=4), nn.Linear(inputs=4, outputs=2)]
        self.scale = nn.Parameter([2], "ones")
        self.about = "no parameter"

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * self.scale.variable


def test_modules_of_python_have_names_files_and_frozen_parts(tmp_path):
    pair = Pair()
    assert [name for name, _ in nn.parameters_of(pair)] == [
        "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias", "scale",
    ]
    assert nn.count_parameters(pair) == 16 + 4 + 8 + 2 + 2
    with pytest.raises(qkv.UsageError, match="layers.0.weight"):
        nn.save(pair, tmp_path / "pair.safetensors")
    nn.initialise(pair, seed=1)
    nn.save(pair, tmp_path / "pair.safetensors")
    other = Pair()
    nn.load(other, tmp_path / "pair.safetensors")
    x = np.ones((3, 4), np.float32)
    assert pair(x).numpy().tobytes() == other(x).numpy().tobytes()
    nn.set_requires_grad(pair.layers[0], False)
    with qkv.Tape() as tape:
        tape.backward(qkv.sum(pair(x)))
    assert {name for name, parameter in nn.parameters_of(pair) if parameter.grad} == {"layers.1.weight", "layers.1.bias", "scale"}
    with pytest.raises(OSError):
        nn.load(other, tmp_path / "none.safetensors")
    with pytest.raises(qkv.DataError, match="layers.0"):
        nn.load(pair.layers[0], tmp_path / "pair.safetensors")


def test_a_step_of_sgd_is_weight_minus_rate_times_gradient():
    pair = Pair()
    nn.initialise(pair, seed=1)
    before = {name: parameter.value.numpy().copy() for name, parameter in nn.parameters_of(pair)}
    optimizer = optim.Sgd(pair, groups=[dict(prefix="layers.0", frozen=True), dict(contains=lambda name: name == "scale", learning_rate_factor=2.0)])
    with qkv.Tape() as tape:
        tape.backward(qkv.sum(pair(np.full((2, 4), 0.5, np.float32))))
    gradients = {name: parameter.grad.numpy().copy() for name, parameter in nn.parameters_of(pair)}
    assert optimizer.step(0.1) > 0 and optimizer.steps == 1
    for name, parameter in nn.parameters_of(pair):
        factor = 0 if name.startswith("layers.0") else 0.2 if name == "scale" else 0.1
        np.testing.assert_allclose(parameter.value.numpy(), before[name] - factor * gradients[name], atol=1e-6)
    with pytest.raises(qkv.UsageError, match="Sgd: expected one of the options .*, found 'beta1'"):
        optim.Sgd(pair, beta1=0.9)
    with pytest.raises(qkv.UsageError, match="learning rate"):
        optimizer.step(-1)


def test_an_opened_encoder_is_the_model_of_its_pipeline(encoder):
    ids = encoder.tokenizer.encode("a man sleeps").ids
    hidden = encoder.model(qkv.Ragged([ids])).value
    assert hidden.shape == (len(ids), 8)
    np.testing.assert_allclose(hidden.numpy().mean(0), encoder.encode("a man sleeps", pooling="mean"), atol=1e-6)


def test_a_language_model_learns_and_its_config_is_what_was_given():
    config = models.LanguageModelConfig(
        vocabulary=8, max_positions=16, embedding=dict(d_model=16, positions=dict(kind="learned", max_positions=16)),
        decoder=dict(layers=nn.alike(1, nn.LayerOptions(d_model=16, heads=2, d_ff=32, norm="pre", reads_memory=False)), final_norm=True),
    )
    model = models.LanguageModel(config)
    assert model.config == config
    nn.initialise(model, seed=1)
    ids, labels = qkv.Ragged([[1, 2, 3, 4, 5, 6], [3, 4, 5]]), [2, 3, 4, 5, 6, 7, 4, 5, 6]
    adam, losses = optim.Adam(model, clip_norm=1.0), []
    for step in range(1, 61):
        context = nn.ForwardContext(training=True, step=step)
        with qkv.Tape() as tape:
            loss = model.logits.cross_entropy(model(ids, context), labels, context, factor=1 / 9).loss
            tape.backward(loss)
        adam.step(optim.learning_rate(step, kind="constant", warmup_steps=5, learning_rate=0.01))
        losses.append(loss.item())
    assert losses[0] > 1.5 and losses[-1] < 0.1
    logits = model.logits(model(qkv.Ragged([[1, 2, 3]]))).numpy()
    assert logits.argmax(1).tolist() == [2, 3, 4]


def test_a_constraint_that_fails_ends_its_request_with_its_error(language):
    class Failing(qkv.search.Constraint):
        def apply(self, context, next):
            self.kept = next
            raise LookupError("here")

    failing = Failing()
    with pytest.raises(LookupError, match="here"):
        language.generate("the man", constraints=[failing]).text()
    with pytest.raises(qkv.UsageError, match="within apply"):
        failing.kept.forbid(1)
    with pytest.raises(qkv.UsageError, match="expected objects with apply"):
        language.generate("the man", constraints=[3])
    assert language.generate("the man", max_new_tokens=3).text()
