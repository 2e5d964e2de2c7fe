"""Tensors of PyTorch on a GPU. They skip, and say why, where there is none."""

import concurrent.futures
import gc
import threading

import numpy as np
import pytest
from conftest import make
from onnx import TensorProto, helper

import streampool as sp

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("PyTorch finds no GPU here", allow_module_level=True)
if not sp.device_count("cuda"):
    pytest.skip(f"Streampool finds no GPU here: {sp.devices()}", allow_module_level=True)
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("this PyTorch is older than 2.10", allow_module_level=True)

F32 = TensorProto.FLOAT


@pytest.fixture(scope="module")
def on_gpu(linear):
    return sp.Session(linear, "cuda:0")


@pytest.fixture(scope="module")
def chain():
    """y = x @ w, ten times: takes long enough for a race to show."""
    w = np.linalg.qr(np.random.default_rng(3).standard_normal((512, 512)))[0].astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x" if n == 0 else f"h{n}", "w"], ["y" if n == 9 else f"h{n + 1}"]) for n in range(10)]
    model = make(nodes, [("x", F32, ["n", 512])], [("y", F32, ["n", 512])], [("w", w)])
    return sp.Session(model, "cuda:0"), torch.linalg.matrix_power(torch.tensor(w, dtype=torch.float64), 10)


def near(ours, theirs):
    torch.testing.assert_close(ours.double().cpu(), theirs.double().cpu(), rtol=1e-3, atol=1e-3)


def test_a_tensor_comes_back_on_its_gpu(on_gpu, weight):
    x = torch.randn(3, 16, device="cuda", requires_grad=True)
    for outputs in (on_gpu.run({"x": x}), on_gpu(x), on_gpu.submit(x).result(60)):
        assert outputs["y"].device == x.device and outputs["y"].shape == (3, 4)
        near(outputs["y"], x.detach().cpu() @ torch.from_numpy(weight))


def test_it_goes_in_and_out_without_a_copy(on_gpu):
    x = torch.randn(4096, 16, device="cuda")
    on_gpu.run(x)
    ours, theirs = sp.memory_stats("cuda:0"), torch.cuda.memory_stats()
    outputs = [on_gpu.run(x)["y"] for _ in range(50)]
    torch.cuda.synchronize()
    # Outputs are PyTorch's own; of ours nothing more is taken.
    assert sp.memory_stats("cuda:0")["reserved_bytes"] == ours["reserved_bytes"]
    held = torch.cuda.memory_stats()["allocated_bytes.all.current"] - theirs["allocated_bytes.all.current"]
    assert held >= 50 * 4096 * 4 * 4
    del outputs


@pytest.mark.parametrize("other", ["half", "transposed", "offset", "negative offset", "empty"])
def test_every_layout_is_read_right(on_gpu, weight, other):
    wide = torch.randn(40, 33, device="cuda")
    x = {
        "half": wide[::2, :16],
        "transposed": torch.randn(16, 7, device="cuda").t(),
        "offset": wide.flatten()[1 : 1 + 160].view(10, 16),
        "negative offset": wide[5:, 17:],
        "empty": torch.empty(0, 16, device="cuda"),
    }[other]
    near(on_gpu.run(x)["y"], x.cpu() @ torch.from_numpy(weight))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8", "bool"])
def test_every_type_goes_through(dtype):
    kind = getattr(torch, dtype)
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) if dtype != "bfloat16" else TensorProto.BFLOAT16
    session = sp.Session(make([helper.make_node("Identity", ["x"], ["y"])], [("x", code, None)], [("y", code, None)]), "cuda:0")
    x = torch.randint(0, 2, (5, 7), device="cuda").to(kind)
    y = session.run(x)["y"]
    assert y.dtype == kind and torch.equal(x, y)
    with pytest.raises(sp.InvalidInput):
        session.run(torch.zeros(2, dtype=torch.complex64, device="cuda"))


def test_inputs_may_be_overwritten_and_outputs_read_at_once(chain):
    session, power = chain
    x = torch.empty(256, 512, device="cuda")
    for turn in range(200):
        # Each value is still being computed when the run is started, and overwritten while it may still run.
        x.fill_(float(turn)).mul_(0.01)
        y = session.run(x)["y"]
        x.fill_(float("nan"))
        expected = torch.full((512,), turn * 0.01, dtype=torch.float64) @ power
        near((y * 1)[7], expected)


def test_outputs_may_be_read_from_another_stream(chain):
    session, power = chain
    other = torch.cuda.Stream()
    for turn in range(100):
        x = torch.full((256, 512), turn * 0.01, device="cuda")
        y = session.run(x)["y"]
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            z = y * 2
        y.record_stream(other)
        # Whoever gets this memory next writes it behind what `other` reads.
        del x, y
        torch.full((256, 512), float("nan"), device="cuda")
        other.synchronize()
        near(z[3], torch.full((512,), turn * 0.02, dtype=torch.float64) @ power)


def test_eight_threads_each_on_a_stream_of_its_own(chain):
    session, power = chain
    alone = session.run(torch.full((64, 512), 0.5, device="cuda"))["y"].clone()
    barrier = threading.Barrier(8)

    def work(number):
        stream = torch.cuda.Stream()
        barrier.wait()
        with torch.cuda.stream(stream):
            x = torch.empty(64, 512, device="cuda")
            for turn in range(200):
                value = 0.01 * (number * 200 + turn)
                x.fill_(value)
                y = session.run({"x": x})["y"]
                x.fill_(float("nan"))
                expected = torch.full((512,), value, dtype=torch.float64) @ power
                near(y[1], expected)
            x.fill_(0.5)
            return session.run(x)["y"].clone(), stream

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for last, stream in pool.map(work, range(8)):
            stream.synchronize()
            assert torch.equal(last, alone)


def test_eight_threads_on_the_default_stream(chain):
    session, power = chain

    def work(number):
        for turn in range(100):
            value = 0.01 * (number * 100 + turn)
            y = session.run(torch.full((32, 512), value, device="cuda"))["y"]
            near(y[1], torch.full((512,), value, dtype=torch.float64) @ power)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_one_thread_on_many_streams(chain):
    session, power = chain
    streams = [torch.cuda.Stream() for _ in range(5)]
    outputs = []
    for turn in range(100):
        with torch.cuda.stream(streams[turn % 5]):
            x = torch.full((128, 512), turn * 0.01, device="cuda")
            outputs.append(session.run(x)["y"])
            del x
    torch.cuda.synchronize()
    for turn, y in enumerate(outputs):
        near(y[0], torch.full((512,), turn * 0.01, dtype=torch.float64) @ power)


def test_a_chosen_stream_of_ours(chain):
    session, power = chain
    with sp.stream(sp.Stream("cuda:0")):
        y = session.run(torch.full((4, 512), 0.25, device="cuda"))["y"]
    near(y[0], torch.full((512,), 0.25, dtype=torch.float64) @ power)


def test_a_bound_session_reads_and_writes_the_same_tensors(chain):
    session, power = chain
    x = torch.empty(16, 512, device="cuda")
    bound = session.bind({"x": x})
    for turn in range(100):
        x.fill_(turn * 0.01)
        y = bound()["y"]
        x.fill_(float("nan"))
        assert y.data_ptr() == bound.outputs["y"].data_ptr()
        near(y[0], torch.full((512,), turn * 0.01, dtype=torch.float64) @ power)
    with pytest.raises(sp.InvalidInput, match="bound"):
        session.bind(np.zeros((1, 512), np.float32))


def test_inputs_of_both_kinds(weight):
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    session = sp.Session(make(nodes, [("a", F32, ["n"]), ("b", F32, ["n"])], [("y", F32, ["n"])]), "cuda:0")
    a, b = torch.arange(5.0, device="cuda"), np.full(5, 2, np.float32)
    y = session.run({"a": a, "b": b})["y"]
    assert y.is_cuda and y.tolist() == [2, 3, 4, 5, 6]


def test_a_model_that_asks_for_values_reads_them_in_time():
    # The shape comes from the GPU, and is being computed when the run is started.
    nodes = [helper.make_node("Expand", ["x", "shape"], ["y"]), helper.make_node("Shape", ["x"], ["known"])]
    inputs = [("x", F32, [1]), ("shape", TensorProto.INT64, [1])]
    session = sp.Session(make(nodes, inputs, [("y", F32, None), ("known", TensorProto.INT64, [1])]), "cuda:0")
    for turn in range(1, 30):
        x = torch.full((1,), float(turn), device="cuda")
        shape = torch.ones(1, dtype=torch.int64, device="cuda").mul_(turn)
        outputs = session.run({"x": x, "shape": shape})
        shape.fill_(1)
        x.fill_(float("nan"))
        assert outputs["y"].tolist() == [float(turn)] * turn and outputs["known"].tolist() == [1]


def test_a_session_on_the_host_and_a_queue_take_them_too(session, weight):
    x = torch.randn(2, 16, device="cuda")
    y = session.run(x)["y"]
    assert y.is_cuda
    near(y, x.cpu() @ torch.from_numpy(weight))
    with sp.BatchQueue(session) as queue:
        assert queue.infer(x)["y"].is_cuda


def test_a_stream_that_captures_is_refused(on_gpu):
    x = torch.randn(1, 16, device="cuda")
    on_gpu.run(x)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(sp.Error, match="captur"), torch.cuda.graph(graph):
        on_gpu.bind(x)()
    torch.cuda.synchronize()
    on_gpu.run(x)


def test_nothing_is_left_behind(on_gpu):
    x = torch.randn(8, 16, device="cuda")

    def some(count):
        for _ in range(count):
            on_gpu.run(x)
            on_gpu.submit(x).result(60)
        torch.cuda.synchronize()
        gc.collect()

    some(500)
    before = torch.cuda.memory_allocated(), sp.memory_stats("cuda:0")["reserved_bytes"]
    some(5000)
    assert (torch.cuda.memory_allocated(), sp.memory_stats("cuda:0")["reserved_bytes"]) == before


def test_modules_and_torch_compile(capsys):
    pytest.importorskip("onnxscript", reason="onnxscript, which torch.onnx needs, is not installed")
    torch.manual_seed(5)
    module = (
        torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8))
        .cuda()
        .eval()
    )
    x = torch.randn(6, 32, device="cuda")
    with torch.no_grad():
        expected = module(x)
        ours = sp.from_torch(module, (x,))
        assert ours.session.device == "cuda"
        torch.testing.assert_close(ours(x), expected, rtol=1e-4, atol=1e-5)
        from streampool import _torch

        torch._dynamo.reset()
        compiled = torch.compile(module, backend=_torch.compile_graph, dynamic=False)
        first = compiled(x)
        torch.testing.assert_close(first, expected, rtol=1e-4, atol=1e-5)

        def run(_):
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                y = compiled(x)
                torch.cuda.current_stream().synchronize()
                return y

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert all(torch.equal(y, first) for y in pool.map(run, range(64)))


def test_parameters_of_a_module_are_shared():
    pytest.importorskip("onnxscript", reason="onnxscript, which torch.onnx needs, is not installed")
    from torch.multiprocessing.reductions import StorageWeakRef

    def layers():
        sizes = (torch.nn.Linear(2048, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 2048))
        return torch.nn.Sequential(*sizes).eval().cuda()

    x = torch.randn(2, 16, 2048, device="cuda")
    with torch.no_grad():
        # What every session needs is there from then on.
        sp.from_torch(layers(), (x,))(x)
        gc.collect()
        sp.empty_cache("cuda:0")
        own, theirs = layers(), sp.memory_stats("cuda:0")["reserved_bytes"]
        expected, kept = own(x), [StorageWeakRef(layer.untyped_storage()) for layer in own.parameters()]
        module = sp.from_torch(own, (x,))
        # PyTorch gives their memory to nobody else.
        del own
        gc.collect()
        others = [torch.full((2048, 2048), float("nan"), device="cuda") for _ in range(4)]
        near(module(x), expected)
        assert not kept[0].expired() and not kept[2].expired()
        assert sp.memory_stats("cuda:0")["reserved_bytes"] < theirs + 4 * 2048 * 2048
    del module, others
    gc.collect()
    sp.empty_cache("cuda:0")
    assert all(each.expired() for each in kept)
