"""Modules of PyTorch as sessions, and Streampool as a backend of ``torch.compile``."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import Error, InvalidInput, Unsupported
from ._session import Session, batch_size

if TYPE_CHECKING:
    import torch


class Module:
    """A module of PyTorch that Streampool runs: called as the module is, from any number of threads.

    ``session`` is the :class:`Session` behind it. Outputs are tensors on the CPU, in the order in which the module gives them.
    """

    def __init__(self, session: Session, inputs: Sequence[str], single: bool) -> None:
        self.session = session
        self._inputs = inputs
        self._single = single

    def __call__(self, *inputs: torch.Tensor) -> Any:
        """Run the module on tensors in the order of its inputs. In ``with batch_inference(…)`` an only input may be a list."""
        rows = batch_size.get()
        if rows is not None and len(inputs) == len(self._inputs) == 1 and self._takes_batches(inputs[0]):
            return self._in_batches(inputs[0], rows)
        return self._run(*inputs)

    def _takes_batches(self, given: Any) -> bool:
        # A first axis of one size is not divided.
        sizes = (self.session.inputs[0].shape if self.session.inputs else None) or (1,)
        return isinstance(given, (list, tuple)) or not isinstance(sizes[0], int)

    def _run(self, *inputs: torch.Tensor) -> Any:
        if len(inputs) != len(self._inputs):
            raise InvalidInput(f"{len(inputs)} inputs were given, the module takes {len(self._inputs)}")
        given = dict(zip(self._inputs, inputs, strict=True))
        # Inputs that the module never reads are no inputs of the session.
        taken = {info.name for info in (*self.session.inputs, *self.session.optional_inputs)}
        outputs = tuple(self.session.run({name: value for name, value in given.items() if name in taken}).values())
        return outputs[0] if self._single else outputs

    def _in_batches(self, inputs: Any, rows: int) -> Any:
        from ._batching import in_batches

        listed = isinstance(inputs, (list, tuple))
        outputs = in_batches(self.session, [(each,) for each in inputs] if listed else inputs, rows)
        answers = [tuple(each.values()) for each in (outputs if listed else [outputs])]
        made = [answer[0] if self._single else answer for answer in answers]
        return made if listed else made[0]


def from_torch(
    module: torch.nn.Module,
    example_inputs: Sequence[torch.Tensor],
    *,
    device: str = "auto",
    dynamic_shapes: Any = None,
    precision: str | None = None,
) -> Module:
    """Make a module of PyTorch one that Streampool runs.

    Parameters
    ----------
    module
        A module in evaluation mode. Its parameters and buffers are shared, not copied, where :class:`Session` can share them.
        Do not change them while the result lives: some were copied into another layout, so outputs would mix old values with
        new ones. To go on training, give ``copy.deepcopy(module)``.
    example_inputs
        Inputs that it can be called with.
    device
        The device, as for :class:`Session`.
    dynamic_shapes
        Which sizes may change, as for ``torch.onnx.export``: ``({0: "batch"},)`` for the first axis of the only input.
    precision
        The precision, as for :class:`Session`.

    Raises
    ------
    Unsupported
        If PyTorch cannot export the module, or Streampool lacks one of its operators, which the text names.
    """
    if module.training:
        raise InvalidInput("the module is in training mode: call its eval() first, since Streampool only runs models")
    on_gpu = [given.device for given in example_inputs if given.device.type == "cuda"]
    if device == "auto" and on_gpu:
        device = str(on_gpu[0])
    model, weights, names = _exported(module, tuple(example_inputs), dynamic_shapes)
    session = Session(model, device, precision=precision, weights=weights)
    return Module(session, names, single=len(session.outputs) == 1)


def _exported(module: torch.nn.Module, inputs: tuple[Any, ...], dynamic_shapes: Any) -> tuple[bytes, dict[str, Any], list[str]]:
    """Return the module as an ONNX file, the weights that are not in it, and the names of its inputs."""
    import torch

    names = [f"input_{place}" for place in range(len(inputs))]
    chatty = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir", "onnxscript")]
    levels = [logger.level for logger in chatty]
    for logger in chatty:
        logger.setLevel(logging.ERROR)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module, inputs, dynamo=True, input_names=names, dynamic_shapes=dynamic_shapes, verbose=False, optimize=False
            )
            assert program is not None
            _optimize(program)
        weights = _taken_out(program.model)
        return program.model_proto.SerializeToString(), weights, names
    except Error:
        raise
    except Exception as why:
        raise Unsupported(f"PyTorch cannot export the module: {_reason(why)}") from why
    finally:
        for logger, level in zip(chatty, levels, strict=True):
            logger.setLevel(level)


def _optimize(program: Any) -> None:
    """Optimize a program of ``torch.onnx``, which transposes no weights: a session reads them turned as they are."""
    values = program.model.graph.initializers.values()
    turned = {value: value.const_value for value in values if any(node.op_type == "Transpose" for node, _ in value.uses())}
    for value in turned:
        # What is not known is not computed with.
        value.const_value = None
    program.optimize()
    for value, known in turned.items():
        value.const_value = known


# Smaller weights, and those of other types, stay in the file.
_LARGE = 1 << 10
_TYPES = ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16")


def _taken_out(model: Any) -> dict[str, Any]:
    """Take the large weights out of a model of ``onnx_ir``, and return them by name: parameters and buffers as they are."""
    import onnx_ir
    import torch

    weights = {}
    for name, value in model.graph.initializers.items():
        known = value.const_value
        if known is None or known.nbytes < _LARGE or known.dtype.name not in _TYPES:
            continue
        raw = getattr(known, "raw", None)
        weights[name] = raw if isinstance(raw, torch.Tensor) else known.numpy()
        value.const_value = onnx_ir.ExternalTensor(name, None, None, known.dtype, shape=known.shape, name=name)
    return weights


def _reason(why: BaseException) -> str:
    """Say which operators PyTorch has no ONNX for, or else what the innermost error begins with."""
    missing: dict[str, None] = {}
    said = repr(why)
    error: BaseException | None = why
    while error is not None:
        missing.update(dict.fromkeys(re.findall(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", str(error))))
        first = re.sub(r"\x1b\[\d*m", "", str(error)).strip().partition("\n")[0]
        said = first or said
        error = error.__cause__
    return f"it has no ONNX for {', '.join(missing)}" if missing else said


def compile_graph(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Compile a graph of Dynamo: the backend ``"streampool"`` of ``torch.compile``.

    A graph that Streampool cannot run is run by PyTorch, with one warning that says why.
    """
    import torch

    if torch.is_grad_enabled() and any(isinstance(given, torch.Tensor) and given.requires_grad for given in example_inputs):
        # Parameters ask for gradients unless the caller says that there are none.
        return _by_pytorch(graph, "gradients are asked for: call the module under torch.inference_mode() or torch.no_grad()")
    inputs = _inputs(graph, example_inputs)
    fixed = [isinstance(given, torch.nn.Parameter) or _is_buffer(node) for given, node in inputs]
    # Sizes that change are inputs of their own: the graph reads them from the tensors here.
    sizes = _sizes(inputs)
    if not all(isinstance(given, torch.Tensor) or place in sizes for place, given in enumerate(example_inputs)):
        return _by_pytorch(graph, "it takes numbers that are no tensors and no sizes of any")
    free = [place for place, inside in enumerate(fixed) if not inside and place not in sizes]
    shapes = tuple({axis: torch.export.Dim.DYNAMIC for axis in _free_axes(inputs[place][1])} for place in free)

    class Bound(torch.nn.Module):
        """The graph with its parameters inside."""

        def __init__(self) -> None:
            super().__init__()
            self.graph = graph
            for place, (given, inside) in enumerate(zip(example_inputs, fixed, strict=True)):
                if inside:
                    self.register_buffer(f"weight_{place}", given.detach())

        def forward(self, *inputs: torch.Tensor) -> Any:
            given: dict[int, Any] = dict(zip(free, inputs, strict=True))
            given |= {place: getattr(self, f"weight_{place}") for place, inside in enumerate(fixed) if inside}
            given |= {place: given[of].shape[axis] for place, (of, axis) in sizes.items()}
            return self.graph(*(given[place] for place in range(len(fixed))))

    try:
        # Not as a part of what Dynamo traces, whose guards would ask for sizes of this inner module.
        with torch._guards.tracing(None):
            examples = [example_inputs[place] for place in free]
            # One tuple for all shapes, as `forward` takes them so.
            module = from_torch(Bound().eval(), examples, dynamic_shapes=(shapes,) if any(shapes) else None)
    except Error as why:
        return _by_pytorch(graph, str(why))

    def run(*inputs: torch.Tensor) -> Any:
        outputs = module._run(*(inputs[place] for place in free))
        return outputs if isinstance(outputs, tuple) else (outputs,)

    return run


def _inputs(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> list[tuple[Any, torch.fx.Node]]:
    places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return list(zip(example_inputs, places, strict=True))


def _free_axes(node: torch.fx.Node) -> dict[int, Any]:
    """Return the axes of an input whose size may change, and by which symbol."""
    seen = getattr(node.meta.get("example_value"), "shape", ())
    return {axis: size.node.expr for axis, size in enumerate(seen) if not isinstance(size, int)}


def _sizes(inputs: list[tuple[Any, torch.fx.Node]]) -> dict[int, tuple[int, int]]:
    """Return which inputs are sizes of others: the place of the other, and its axis."""
    import torch

    axes = {symbol: (place, axis) for place, (_, node) in enumerate(inputs) for axis, symbol in _free_axes(node).items()}
    symbols = {place: given.node.expr for place, (given, _) in enumerate(inputs) if isinstance(given, torch.SymInt)}
    return {place: axes[symbol] for place, symbol in symbols.items() if symbol in axes}


def _is_buffer(node: torch.fx.Node) -> bool:
    """Whether an input is a buffer of a module, as Dynamo names those that it lifts."""
    return "_buffers_" in node.name or "_parameters_" in node.name


def _by_pytorch(graph: torch.fx.GraphModule, why: str) -> Callable[..., Any]:
    warnings.warn(f"Streampool leaves a part of the module to PyTorch: {why}", stacklevel=2)
    forward: Callable[..., Any] = graph.forward
    return forward


def explain(module: torch.nn.Module, example_inputs: Sequence[torch.Tensor]) -> str:
    """Say whether Streampool runs a module, and if not, why."""
    try:
        made = from_torch(module, example_inputs, device="host")
    except Error as why:
        return f"Streampool cannot run it: {why}"
    infos = ", ".join(f"{info.name} {info.dtype} {info.shape}" for info in made.session.inputs)
    return f"Streampool runs the whole module. Its inputs: {infos}."
