"""Tensors share memory with arrays; operations and gradients are those of numpy in double precision."""

import gc
import threading

import numpy as np
import pytest

import qkv


def uniform(seed, *shape):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention_of(query, key, value, causal):
    """[batch, tokens, heads, d] in float64: output and weights [batch, heads, queries, keys]."""
    scores = np.einsum("bqhd,bkhd->bhqk", query.astype(np.float64), key.astype(np.float64)) / np.sqrt(query.shape[-1])
    if causal:
        queries, keys = scores.shape[-2:]
        scores = np.where(np.arange(keys) <= np.arange(queries)[:, None] + keys - queries, scores, -np.inf)
    weights = softmax(scores)
    return np.einsum("bhqk,bkhd->bqhd", weights, value.astype(np.float64)), weights


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("float32", "f32"), ("float16", "f16"), ("int32", "i32"), ("int64", "i64"), ("int8", "i8"), ("uint8", "u8"), ("bool", "u8")],
)
def test_an_array_and_its_tensor_share_memory(dtype, name):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    tensor = qkv.Tensor(array)
    assert (tensor.dtype, tensor.shape, tensor.read_only) == (name, (2, 3), False)
    array[1, 2] = 0
    back = tensor.numpy()
    assert np.shares_memory(back, array) and back[1, 2] == 0 and back.shape == (2, 3)
    del array, tensor
    gc.collect()
    assert back[1, 1] == (True if dtype == "bool" else 4)


def test_read_only_memory_stays_read_only():
    array = uniform(1, 3, 4)
    array.flags.writeable = False
    tensor = qkv.Tensor(array)
    assert tensor.read_only and not tensor.numpy().flags.writeable and not np.asarray(tensor).flags.writeable
    with pytest.raises(qkv.UsageError, match="a read-only array"):
        tensor.fill_zero()
    with pytest.raises(qkv.UsageError, match="a read-only array"):
        tensor.slice_rows(0, 1).copy_from(uniform(2, 1, 4))
    copy = tensor.clone()
    copy.numpy()[0, 0] = 5
    assert copy.at(0, 0) == 5 and tensor.at(0, 0) == array[0, 0] != 5


def test_weights_of_an_opened_folder_are_read_only(encoder):
    (name, parameter), *_ = qkv.nn.parameters_of(encoder.model)
    assert name == "embed_tokens.weight" and not parameter.variable.requires_grad
    assert parameter.value.read_only and not parameter.value.numpy().flags.writeable


@pytest.mark.parametrize("dtype", ["float64", "complex64", "uint16", "int16"])
def test_dtypes_that_tensors_lack_are_named_and_not_converted(dtype):
    array = np.zeros((2, 2), dtype)
    for use in [qkv.Tensor, qkv.softmax, lambda x: qkv.attention(x, x, x)]:
        with pytest.raises(ValueError, match="found " + dtype):
            use(array)
    with pytest.raises(ValueError, match="found " + dtype):
        qkv.Variable(uniform(1, 2, 2)) + array


def test_arrays_with_strides_are_refused_and_views_have_them():
    array = uniform(1, 4, 6)
    with pytest.raises(qkv.ShapeError, match="expected a contiguous array"):
        qkv.Tensor(array[:, ::2])
    with pytest.raises(qkv.ShapeError, match="expected a contiguous array"):
        qkv.Tensor(array.T)
    columns = qkv.Tensor(array).columns(1, 2)
    assert not columns.contiguous
    assert np.array_equal(columns.numpy(), array[:, 1:3]) and np.shares_memory(columns.numpy(), array)
    assert columns.at(3, -1) == array[3, 2]
    assert np.array_equal(qkv.Tensor(array).slice_rows(1, 2).numpy(), array[1:3])
    assert np.array_equal(qkv.Tensor(array).slice(1, 2, 3).numpy(), array[:, 2:5])
    assert qkv.Tensor(array).reshape([2, 12]).shape == (2, 12)


def test_lists_are_f32_or_i32():
    assert (qkv.Tensor([1, 2]).dtype, qkv.Tensor([1.0, 2]).dtype, qkv.Tensor([True]).dtype) == ("i32", "f32", "u8")
    assert qkv.Tensor([2**40]).dtype == "i64"
    assert str(qkv.Tensor([1, 2, 3, 4, 5, 6], [2, 3])) == "i32 [2, 3]: 1, 2, 3, 4, 5, 6"
    assert qkv.Tensor([[1.5], [2.5]]).tolist() == [[1.5], [2.5]]
    with pytest.raises(qkv.ShapeError, match=r"\[2, 3\]"):
        qkv.Tensor([1, 2], [2, 3])
    with pytest.raises(qkv.ShapeError, match="expected an index below 2"):
        qkv.Tensor([1, 2]).at(2)
    with pytest.raises(ValueError, match="expected a tensor or an array, found 'abc'"):
        qkv.Tensor("abc")


def test_dlpack_shares_memory_with_other_frameworks():
    tensor = qkv.Tensor(uniform(1, 2, 3))
    array = np.from_dlpack(tensor)
    assert np.shares_memory(array, tensor.numpy())
    assert tensor.__dlpack_device__() == (1, 0)


def test_torch_shares_memory_with_tensors():
    torch = pytest.importorskip("torch", reason="needs torch")
    tensor = qkv.Tensor(uniform(1, 2, 3))
    there = torch.from_dlpack(tensor)
    there[0, 0] = 7
    assert tensor.at(0, 0) == 7
    half = torch.arange(6).to(torch.bfloat16).reshape(2, 3)
    back = qkv.Tensor(half)
    assert back.dtype == "bf16" and torch.equal(torch.from_dlpack(back), half)
    with pytest.raises(qkv.UsageError, match="found bf16"):
        back.numpy()


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_that_of_the_paper(causal):
    query, key, value = uniform(1, 2, 5, 3, 8), uniform(2, 2, 7, 3, 8), uniform(3, 2, 7, 3, 4)
    output, weights = attention_of(query, key, value, causal)
    found, found_weights = qkv.attention(query, key, value, causal=causal, return_weights=True)
    assert found.dtype == np.float32 and found.shape == (2, 5, 3, 4)
    np.testing.assert_allclose(found, output, atol=2e-6)
    np.testing.assert_allclose(np.stack(found_weights), weights, atol=1e-6)
    assert np.array_equal(qkv.attention(query, key, value, causal=causal), found)


def test_attention_takes_masks_and_refuses_what_does_not_fit():
    x = uniform(1, 1, 4, 2, 8)
    keep = np.tril(np.ones((1, 1, 4, 4), bool))
    assert np.array_equal(qkv.attention(x, x, x, keep=keep), qkv.attention(x, x, x, causal=True))
    with pytest.raises(qkv.UsageError, match="attention: expected one of the options causal, .*, found 'casual'"):
        qkv.attention(x, x, x, casual=True)
    with pytest.raises(qkv.UsageError, match="attention.alignment: expected one of last_key, first_key, found 'last'"):
        qkv.attention(x, x, x, alignment="last")
    with pytest.raises(qkv.ShapeError):
        qkv.attention(x, x[:, :, :1].copy(), x)


def test_operators_take_arrays_and_numbers_on_either_side():
    a, b = uniform(1, 3, 4), uniform(2, 4)
    x = qkv.Variable(a)
    for found, expected in [
        (x + b, a + b),
        (b + x, a + b),
        (2 * x - 1, 2 * a - 1),
        (1 - x, 1 - a),
        (b / (x + 3), b / (a + 3)),
        (-x, -a),
        (x @ a.T.copy(), a @ a.T),
        (qkv.sum(x, 1), a.sum(1)),
        (qkv.mean(x, 0, keep_axis=True), a.mean(0, keepdims=True)),
        (qkv.softmax(a), softmax(a.astype(np.float64))),
        (qkv.concatenate([x, a], 0), np.concatenate([a, a])),
        (qkv.gather(x, [2, 0]), a[[2, 0]]),
        (qkv.reshape(x, [2, 6]), a.reshape(2, 6)),
        (qkv.segment_mean(x, qkv.Offsets([0, 1, 3])), np.stack([a[:1].mean(0), a[1:].mean(0)])),
        (qkv.mse(x, a + 1), np.ones(1)),
    ]:
        np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)
    with pytest.raises(qkv.ShapeError, match=r"\[3, 4\].*\[5\]"):
        x + uniform(3, 5)


def test_gradients_are_those_of_attention_in_double_precision():
    arrays = [uniform(seed, 1, 4, 2, 3) for seed in (1, 2, 3)]
    coefficients = uniform(4, 1, 4, 2, 3)
    leaves = [qkv.Variable.parameter(array) for array in arrays]
    with qkv.Tape() as tape:
        output = qkv.attention(*leaves, causal=True)
        loss = qkv.sum(output * coefficients)
        tape.backward(loss)
    for index, leaf in enumerate(leaves):
        expected = np.zeros_like(arrays[index], dtype=np.float64)
        for at in np.ndindex(expected.shape):
            difference = 0.0
            for sign in (1, -1):
                shifted = [array.astype(np.float64) for array in arrays]
                shifted[index][at] += sign * 1e-5
                difference += sign * (attention_of(*shifted, True)[0] * coefficients).sum()
            expected[at] = difference / 2e-5
        np.testing.assert_allclose(leaf.grad.numpy(), expected, atol=2e-5)
        leaf.clear_grad()
        assert leaf.grad is None


def test_a_tape_records_within_its_block_and_refuses_changed_values():
    x = qkv.Variable.parameter(uniform(1, 2, 2))
    assert not qkv.Tape.records()
    with qkv.Tape() as tape:
        assert qkv.Tape.records()
        with pytest.raises(qkv.UsageError):
            with qkv.Tape():
                pass
        loss = qkv.sum(x * x)
        x.value.numpy()[0, 0] = 3
        x.mark_modified()
        with pytest.raises(qkv.UsageError, match="multiply|\\*"):
            tape.backward(loss)
    assert not qkv.Tape.records()
    with pytest.raises(qkv.UsageError, match="within its with block"):
        tape.backward(loss)
    with pytest.raises(KeyError):
        with qkv.Tape():
            raise KeyError
    assert not qkv.Tape.records()


def test_threads_have_tapes_of_their_own():
    found = {}

    def work(number):
        x = qkv.Variable.parameter(np.full((2,), number, np.float32))
        with qkv.Tape() as tape:
            tape.backward(qkv.sum(x * x))
        found[number] = x.grad.numpy().tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [2.0 * number] * 2 for number in range(6)}


def test_arrays_live_as_long_as_tensors_that_share_their_memory():
    class Counted(np.ndarray):
        alive = 0

        def __del__(self):
            Counted.alive -= 1

    array = uniform(1, 100).view(Counted)
    Counted.alive = 1
    tensor = qkv.Tensor(array).reshape([10, 10])
    del array
    gc.collect()
    total = float(qkv.sum(tensor).item())
    assert np.isfinite(total) and Counted.alive >= 1
    del tensor
    gc.collect()
    assert Counted.alive <= 0
