"""Arrays of JAX. They skip where JAX is not installed."""

import numpy as np
import pytest

import streampool as sp

jax = pytest.importorskip("jax", reason="JAX is not installed")


def test_arrays_come_back_as_arrays(session, weight):
    x = jax.numpy.linspace(0, 1, 48, dtype=jax.numpy.float32).reshape(3, 16)
    y = session.run({"x": x})["y"]
    assert isinstance(y, jax.Array) and y.dtype == np.float32
    np.testing.assert_allclose(np.asarray(y), np.asarray(x) @ weight, rtol=1e-5, atol=1e-5)
    with sp.BatchQueue(session) as queue:
        assert isinstance(queue.infer(x)["y"], jax.Array)
        assert isinstance(queue.submit(x).result(60)["y"], jax.Array)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_every_type_comes_back(identity, dtype, shape):
    x = jax.numpy.ones(shape, dtype)
    y = identity(dtype).run(x)["y"]
    assert y.dtype == x.dtype and y.shape == x.shape and bool((y == x).all())


def test_a_function_of_jax_is_batched():
    double = sp.batched(max_batch_size=8)(lambda x: jax.numpy.asarray(x) * 2)
    assert (np.asarray(double(np.ones((2, 3), np.float32))) == 2).all()
    double.queue.close()


def test_tensors_go_to_jax_and_come_from_there():
    x = jax.numpy.arange(6.0).reshape(2, 3)
    tensor = sp.Tensor(x, "host")
    assert (jax.numpy.asarray(tensor.numpy()) == x).all()
    assert (jax.numpy.from_dlpack(tensor) == x).all()
