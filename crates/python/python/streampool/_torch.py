"""Modules of PyTorch as sessions, and Streampool as a backend of ``torch.compile``."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import Error, InvalidInput, Unsupported
from ._session import Session

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
        """Run the module on tensors in the order of its inputs."""
        if len(inputs) != len(self._inputs):
            raise InvalidInput(f"{len(inputs)} inputs were given, the module takes {len(self._inputs)}")
        given = dict(zip(self._inputs, inputs, strict=True))
        # Inputs that the module never reads are no inputs of the session.
        taken = {info.name for info in (*self.session.inputs, *self.session.optional_inputs)}
        outputs = tuple(self.session.run({name: value for name, value in given.items() if name in taken}).values())
        return outputs[0] if self._single else outputs


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
        A module in evaluation mode. Its weights are copied: what is done to them later changes nothing.
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
    model, names = _exported(module, tuple(example_inputs), dynamic_shapes)
    session = Session(model, device, precision=precision)
    return Module(session, names, single=len(session.outputs) == 1)


def _exported(module: torch.nn.Module, inputs: tuple[Any, ...], dynamic_shapes: Any) -> tuple[bytes, list[str]]:
    """Return the module as an ONNX file, and the names of its inputs."""
    import torch

    names = [f"input_{place}" for place in range(len(inputs))]
    chatty = logging.getLogger("torch.onnx")
    level = chatty.level
    chatty.setLevel(logging.ERROR)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module, inputs, dynamo=True, input_names=names, dynamic_shapes=dynamic_shapes, verbose=False, optimize=True
            )
        assert program is not None
        return program.model_proto.SerializeToString(), names
    except Error:
        raise
    except Exception as why:
        reason = str(why).strip().splitlines()
        raise Unsupported(f"PyTorch cannot export the module: {reason[0] if reason else why!r}") from why
    finally:
        chatty.setLevel(level)


def compile_graph(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Compile a graph of Dynamo: the backend ``"streampool"`` of ``torch.compile``.

    A graph that Streampool cannot run is run by PyTorch, with one warning that says why.
    """
    import torch

    if torch.is_grad_enabled() and any(isinstance(given, torch.Tensor) and given.requires_grad for given in example_inputs):
        # Parameters ask for gradients unless the caller says that there are none.
        return _by_pytorch(graph, "gradients are asked for: call the module under torch.inference_mode() or torch.no_grad()")
    fixed = [isinstance(given, torch.nn.Parameter) or _is_buffer(node) for given, node in _inputs(graph, example_inputs)]
    if not all(isinstance(given, torch.Tensor) for given in example_inputs):
        return _by_pytorch(graph, "sizes are symbols: compile with dynamic=False")

    class Bound(torch.nn.Module):
        """The graph with its parameters inside."""

        def __init__(self) -> None:
            super().__init__()
            self.graph = graph
            for place, (given, inside) in enumerate(zip(example_inputs, fixed, strict=True)):
                if inside:
                    self.register_buffer(f"weight_{place}", given.detach())

        def forward(self, *inputs: torch.Tensor) -> Any:
            left = iter(inputs)
            places = range(len(fixed))
            return self.graph(*(getattr(self, f"weight_{place}") if fixed[place] else next(left) for place in places))

    free = tuple(given for given, inside in zip(example_inputs, fixed, strict=True) if not inside)
    try:
        module = from_torch(Bound().eval(), free)
    except Error as why:
        return _by_pytorch(graph, str(why))

    def run(*inputs: torch.Tensor) -> Any:
        outputs = module(*(given for given, inside in zip(inputs, fixed, strict=True) if not inside))
        return outputs if isinstance(outputs, tuple) else (outputs,)

    return run


def _inputs(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> list[tuple[Any, torch.fx.Node]]:
    places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return list(zip(example_inputs, places, strict=True))


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
