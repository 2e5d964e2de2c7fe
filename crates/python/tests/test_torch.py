"""Modules of PyTorch. They skip where PyTorch is not installed."""

import concurrent.futures
import gc
import importlib.metadata
import warnings

import numpy as np
import pytest
from conftest import outside
from onnx import TensorProto, helper

import streampool as sp

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript, which torch.onnx needs, is not installed")


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
        )

    def forward(self, x):
        return self.layers(x)


@pytest.fixture(scope="module")
def mlp():
    torch.manual_seed(7)
    return Mlp().eval()


def test_tensors_come_back_as_tensors(session, weight):
    x = torch.ones(2, 16, requires_grad=True)
    outputs = session.run({"x": x})
    assert isinstance(outputs["y"], torch.Tensor)
    np.testing.assert_allclose(outputs["y"].numpy(), np.ones((2, 16), np.float32) @ weight, rtol=1e-5, atol=1e-5)


def test_a_module_runs_from_eight_threads(mlp):
    module = sp.from_torch(mlp, (torch.randn(3, 8),), device="host", dynamic_shapes=({0: "batch"},))
    inputs = [torch.randn(1 + seed % 4, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(64)]
    with torch.no_grad():
        expected = [mlp(x) for x in inputs]
    alone = [module(x) for x in inputs]
    for ours, theirs in zip(alone, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for ours, one in zip(pool.map(module, inputs), alone, strict=True):
            assert torch.equal(ours, one)


def test_several_inputs_and_outputs():
    class Two(torch.nn.Module):
        def forward(self, a, unused, b):
            return a + b, a @ b

    a, b = torch.eye(3), torch.arange(9.0).reshape(3, 3)
    module = sp.from_torch(Two().eval(), (a, a, b), device="host")
    total, product = module(a, a, b)
    assert torch.equal(total, a + b) and torch.equal(product, b)
    with pytest.raises(sp.InvalidInput, match="3"):
        module(a)


def test_training_mode_is_refused():
    with pytest.raises(sp.InvalidInput, match="eval"):
        sp.from_torch(Mlp(), (torch.randn(1, 8),))


def test_what_cannot_be_exported_says_why():
    class Odd(torch.nn.Module):
        def forward(self, x):
            return x if float(x.sum()) > 0 else -x

    with pytest.raises(sp.Unsupported, match="export"):
        sp.from_torch(Odd().eval(), (torch.randn(2),))
    assert "cannot run" in sp.explain(Odd().eval(), (torch.randn(2),))
    assert "whole module" in sp.explain(Mlp().eval(), (torch.randn(1, 8),))


def test_what_has_no_onnx_is_named():
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x)

    x = torch.randn(2)
    assert "no ONNX for prims.bessel_j0" in sp.explain(Odd().eval(), (x,))
    torch._dynamo.reset()
    with torch.no_grad(), pytest.warns(UserWarning, match="bessel_j0"):
        y = torch.compile(Odd().eval(), backend=backend(), dynamic=False)(x)
    torch.testing.assert_close(y, torch.special.bessel_j0(x))


def test_a_module_goes_through_batches(mlp):
    module = sp.from_torch(mlp, (torch.randn(3, 8),), device="host", dynamic_shapes=({0: "batch"},))
    x = torch.randn(7, 8)
    expected = module(x)
    with sp.batch_inference(batch_size=3):
        rows, parts = module(x), module(list(x.split(2)))
    torch.testing.assert_close(rows, expected)
    torch.testing.assert_close(torch.cat(parts), expected)
    # What takes one size only is not divided.
    fixed = sp.from_torch(mlp, (x[:3],), device="host")
    with sp.batch_inference(batch_size=2):
        torch.testing.assert_close(fixed(x[:3]), expected[:3])


def backend():
    """The backend by its name, if the package is installed with its entry points."""
    names = {point.name for point in importlib.metadata.entry_points(group="torch_dynamo_backends")}
    from streampool import _torch

    return "streampool" if "streampool" in names else _torch.compile_graph


def test_torch_compile_runs_it_here(mlp):
    torch._dynamo.reset()
    x = torch.randn(5, 8)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module="torch")
        compiled = torch.compile(mlp, backend=backend(), dynamic=False)
        torch.testing.assert_close(compiled(x), mlp(x), rtol=1e-4, atol=1e-5)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:

            def run(_):
                with torch.no_grad():
                    return compiled(x)

            first = compiled(x)
            assert all(torch.equal(y, first) for y in pool.map(run, range(64)))


def test_torch_compile_takes_sizes_that_change():
    class Sized(torch.nn.Module):
        def forward(self, a, b):
            rows = a.shape[0]
            return (a @ b).reshape(2 * rows, -1) + rows, a.sum(0)

    torch._dynamo.reset()
    module, b = Sized().eval(), torch.randn(8, 4)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module="torch")
        compiled = torch.compile(module, backend=backend())
        for rows in (3, 5, 6, 2, 9, 1):
            a = torch.randn(rows, 8)
            torch.testing.assert_close(compiled(a, b), module(a, b), rtol=1e-4, atol=1e-5)


def test_torch_compile_falls_back_with_a_warning(mlp):
    torch._dynamo.reset()
    x = torch.randn(5, 8)
    compiled = torch.compile(mlp, backend=backend(), dynamic=False)
    with pytest.warns(UserWarning, match="no_grad"):
        y = compiled(x)
    torch.testing.assert_close(y, mlp(x))
    y.sum().backward()


def storage(tensor):
    """What tells whether anybody still has the memory of a tensor."""
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef(tensor.untyped_storage())


class Wide(torch.nn.Module):
    """A weight that is read turned, one that is read as it is, and buffers."""

    def __init__(self):
        super().__init__()
        self.linear, self.conv = torch.nn.Linear(256, 256), torch.nn.Conv1d(3, 256, 9, padding=4)
        self.register_buffer("scale", torch.rand(3, 4096))

    def forward(self, x):
        return self.conv((self.linear(x).flatten(1) * self.scale[0, :768] + 1).unflatten(1, (3, 256)))


@pytest.mark.parametrize("compiled", [False, True])
def test_parameters_are_shared_and_let_go_of(compiled):
    torch.manual_seed(3)
    torch._dynamo.reset()
    wide, x = Wide().eval(), torch.randn(2, 3, 256)
    kept = [storage(tensor) for tensor in (wide.linear.weight, wide.conv.weight)]
    with torch.no_grad():
        expected = wide(x)
        if compiled:
            module = torch.compile(wide, backend=backend(), dynamic=False)
            module(x)
        else:
            module = sp.from_torch(wide, (x,), device="host")
            # A parameter that is given other memory leaves its own to the session.
            wide.linear.weight.data, wide.conv.weight.data = torch.zeros(256, 256), torch.zeros(256, 3, 9)
        gc.collect()
        assert not kept[0].expired() and not kept[1].expired()
        torch.testing.assert_close(module(x), expected, rtol=1e-4, atol=1e-4)
    del module, wide
    torch._dynamo.reset()
    gc.collect()
    assert kept[0].expired() and kept[1].expired()


def test_weights_may_be_tensors(linear, weight):
    model, _ = outside(linear)
    node = helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT)
    model.graph.node.insert(0, node)
    model.graph.node[1].input[1] = "wide"
    for dtype, code in ((torch.float16, TensorProto.FLOAT16), (torch.bfloat16, TensorProto.BFLOAT16)):
        model.graph.initializer[0].data_type = code
        w = torch.nn.Parameter(torch.from_numpy(weight).to(dtype))
        for given in (w, w.T.contiguous().T):
            session = sp.Session(model, "host", weights={"w": given})
            y = session.run(torch.eye(16))["y"]
            torch.testing.assert_close(y, w.detach().float())
