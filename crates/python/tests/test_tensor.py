import numpy as np
import pytest
from processes import in_a_process

import streampool as sp

X = np.random.default_rng(4).standard_normal((3, 4, 5)).astype(np.float32)


def same(ours, theirs, **near):
    assert ours.dtype == str(theirs.dtype) and ours.shape == theirs.shape
    np.testing.assert_allclose(ours.numpy(), theirs, **near)


@pytest.fixture
def x():
    return sp.Tensor(X, "host")


TWO = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
}

KINDS = [
    ("float32", "float32"),
    ("int32", "int64"),
    ("int64", "float32"),
    ("uint8", "float64"),
    ("int32", 2),
    ("float32", 3),
]


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("kinds", KINDS)
def test_arithmetic_is_as_in_numpy(name, kinds):
    a = np.arange(-6, 6).reshape(3, 4).astype(kinds[0])
    b = np.array([1, 2, 3, 5]).astype(kinds[1]) if isinstance(kinds[1], str) else kinds[1]
    other = sp.Tensor(b, "host") if isinstance(b, np.ndarray) else b
    same(TWO[name](sp.Tensor(a, "host"), other), TWO[name](a, b), rtol=1e-6)
    if not isinstance(other, sp.Tensor):
        same(TWO[name](sp.Tensor(a, "host"), 2), TWO[name](a, 2), rtol=1e-6)


def test_a_number_may_come_first(x):
    same(1 - x, 1 - X)
    same(2 / x, 2 / X, rtol=1e-6)
    same(-x, -X)
    same(abs(x), abs(X))
    assert (sp.Tensor([1, 2], "host") / 2).dtype == "float64"


INDICES = [
    0,
    -1,
    (1, 2, 3),
    (slice(None), 1),
    (slice(1, None), slice(None, None, 2)),
    (..., 2),
    (0, ..., slice(3, 0, -1)),
    (slice(None, None, -1),),
    (None, 1, slice(4, 1)),
    (slice(None), [2, 0]),
    (slice(-2, 10), None, ..., None),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_as_in_numpy(x, index):
    same(x[index], X[index])


def test_an_index_that_is_not_there_is_refused(x):
    for index in (3, -4, (0, 0, 0, 0), (..., ...)):
        with pytest.raises(IndexError):
            x[index]
    with pytest.raises(TypeError, match="masked_select"):
        x[X > 0]


def test_reductions_and_shapes(x):
    same(x.sum(), X.sum(), rtol=1e-5)
    same(x.mean(1, keepdims=True), X.mean(1, keepdims=True), rtol=1e-5)
    same(x.max((0, 2)), X.max((0, 2)))
    same(x.std(), X.std(), rtol=1e-5)
    same(x.reshape(4, -1).T, X.reshape(4, -1).T)
    same(x.permute(2, 0, 1), X.transpose(2, 0, 1))
    same(x @ x.transpose(1, 2), X @ X.transpose(0, 2, 1), rtol=1e-4, atol=1e-5)
    same(x.exp(), np.exp(X), rtol=1e-6)
    same((x > 0).where(x, 0 * x), np.where(X > 0, X, 0))
    same(sp.Tensor([1, 2, 4], "host").mean(), np.array([1, 2, 4]).mean())
    values, places = x.topk(2)
    np.testing.assert_array_equal(places.numpy(), np.argsort(-X, axis=-1)[..., :2])
    assert [row.shape for row in x] == [(4, 5)] * 3 and len(x) == 3


def test_one_element_is_a_number():
    assert float(sp.Tensor(1.5, "host")) == 1.5 and int(sp.Tensor([3], "host")) == 3
    assert sp.Tensor([True], "host").item() is True
    with pytest.raises(ValueError, match="any"):
        bool(sp.Tensor([1, 2], "host"))
    assert repr(sp.Tensor([1, 2], "host")) == "Tensor([1, 2], int64, host)"


def test_what_is_missing_is_named(x):
    with pytest.raises(AttributeError, match="fancy.*cumsum"):
        x.fancy()
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(sp.InvalidInput, match="reshape"):
        x.reshape(7, 7)
    with pytest.raises(sp.InvalidInput, match="complex"):
        x.astype("complex64")


def test_other_libraries_read_it_where_it_is(x):
    array = np.from_dlpack(x)
    np.testing.assert_array_equal(array, X)
    np.testing.assert_array_equal(np.asarray(x), X)
    again = sp.Tensor(array, "host")
    del x
    np.testing.assert_array_equal(array, again.numpy())
    capsule = again.__dlpack__()
    assert "dltensor" in repr(capsule)
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    assert torch.equal(torch.from_dlpack(again), torch.from_numpy(X)) and torch.equal(again.torch(), torch.from_numpy(X))


def test_random_numbers_come_again():
    sp.manual_seed(3)
    first = sp.randn(4, device="host")
    state = sp.get_rng_state()
    then = sp.rand(2, 3, device="host").numpy()
    sp.set_rng_state(state)
    np.testing.assert_array_equal(sp.rand(2, 3, device="host").numpy(), then)
    sp.manual_seed(3)
    np.testing.assert_array_equal(sp.randn(4, device="host").numpy(), first.numpy())
    assert (then >= 0).all() and (then < 1).all() and len(set(then.flat)) == 6
    with pytest.raises(sp.InvalidInput, match="16"):
        sp.set_rng_state(b"short")


def test_the_module_is_the_program():
    told = in_a_process("""
        import subprocess, sys
        done = subprocess.run([sys.executable, "-m", "streampool", "--version"], capture_output=True, text=True)
        lost = subprocess.run([sys.executable, "-m", "streampool", "inspect", "nowhere.onnx"], capture_output=True, text=True)
        print(done.stdout.strip(), done.returncode, lost.returncode, "nowhere.onnx" in lost.stderr)
    """)
    assert told.split() == ["streampool", sp.__version__, "0", "1", "True"]
