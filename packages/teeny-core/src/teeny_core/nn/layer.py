"""`Layer`: a part of a model, with parameters, buffers and parts of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

import numpy as np

from teeny_core import shape as shapes
from teeny_core.context import is_training
from teeny_core.dtype import DTypeLike
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import LoadError, OpError
from teeny_core.name_scope import name_scope
from teeny_core.nn.parameter import Buffer, Parameter
from teeny_core.op import Array
from teeny_core.ops import convert
from teeny_core.tensor import Tensor

if TYPE_CHECKING:
    from teeny_core.state import LoadReport

I = ParamSpec("I")  # noqa: E741 - inputs, as O is for output
O = TypeVar("O", covariant=True)  # noqa: E741
Kind = TypeVar("Kind")


class Layer(Generic[I, O]):
    """A part of a model. Subclasses set attributes in `__init__` and compute in `call`.

    `Parameter`s, `Buffer`s and layers that are attributes belong to the layer, in the order in
    which they were set; their qualified names are as in PyTorch ("head.1.weight").

    `Layer[[AnyTensor, AnyTensor], AnyTensor]` names the types of inputs and output.

    Attributes:
        training: False keeps the layer as in inference even while a model is trained: dropout
            drops nothing, batch normalisation uses and keeps its running statistics.
    """

    training: bool = True
    _scope: str = ""

    def call(self, *args: I.args, **kwargs: I.kwargs) -> O:
        """Compute the output. This is what subclasses define and what is traced.

        Raises:
            OpError: the subclass defines none.
        """
        raise OpError(
            f"{type(self).__name__} does not say what it computes", hint="define its method `call`"
        )

    def __call__(self, *args: I.args, **kwargs: I.kwargs) -> O:
        """Compute the output, with this layer's name on the nodes made."""
        with name_scope(self._scope):
            return self.call(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        held = self.__dict__.get(name)
        if isinstance(held, Tensor) and value is not None and not isinstance(value, type(held)):
            raise OpError(
                f"{type(self).__name__}.{name} is a {type(held).__name__}, "
                f"not to be replaced by a {type(value).__name__}",
                hint=f"write into it: layer.{name}.assign(value)",
            )
        object.__setattr__(self, name, value)
        if isinstance(value, Layer):
            value._set_scope(name)

    def _set_scope(self, name: str) -> None:
        object.__setattr__(self, "_scope", name)

    # --- what belongs to the layer ------------------------------------------

    def children(self) -> Iterator[tuple[str, Layer[..., Any]]]:
        """Yield the layers that are attributes of this one, with their names."""
        yield from self._attributes(Layer)

    def named_layers(self, prefix: str = "") -> Iterator[tuple[str, Layer[..., Any]]]:
        """Yield this layer and all below it, once each, with qualified names."""
        return _once(self._walk(prefix))

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters of this layer and all below it, once each, with their names."""
        return _once(self._members(Parameter, prefix))

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Buffer]]:
        """Yield the buffers of this layer and all below it, once each, with their names."""
        return _once(self._members(Buffer, prefix))

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters of this layer and all below it, once each."""
        return (parameter for _, parameter in self.named_parameters())

    def buffers(self) -> Iterator[Buffer]:
        """Yield the buffers of this layer and all below it, once each."""
        return (buffer for _, buffer in self.named_buffers())

    def named_tensors(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Yield parameters and buffers of this layer and all below it, once each."""
        return _once(self._members(Tensor, prefix))

    def _attributes(self, kind: type[Kind]) -> Iterator[tuple[str, Kind]]:
        for name, value in vars(self).items():
            if isinstance(value, kind):
                yield name, value

    def _walk(self, prefix: str) -> Iterator[tuple[str, Layer[..., Any]]]:
        yield prefix, self
        for name, child in self.children():
            yield from child._walk(_join(prefix, name))

    def _members(self, kind: type[Kind], prefix: str = "") -> Iterator[tuple[str, Kind]]:
        """Yield members of a kind under every name, those of a shared layer several times."""
        for path, layer in self._walk(prefix):
            for name, member in layer._attributes(kind):
                yield _join(path, name), member

    # --- mode ---------------------------------------------------------------

    @property
    def in_training(self) -> bool:
        """Whether to behave as in training: asked for by the context, and by `training` too."""
        return self.training and is_training()

    def train(self, mode: bool = True) -> Self:
        """Set `training` on this layer and all below it; return the layer."""
        for _, layer in self.named_layers():
            layer.training = mode
        return self

    def eval(self) -> Self:
        """Set `training` to False on this layer and all below it; return the layer."""
        return self.train(False)

    def apply(self, function: Callable[[Layer[..., Any]], object]) -> Self:
        """Call `function` on all layers below this one, then on this one; return the layer."""
        for _, child in self.children():
            child.apply(function)
        function(self)
        return self

    def to(self, dtype: DTypeLike) -> Self:
        """Convert the floats of this layer and all below it to another type; return the layer.

        They become new parameters and buffers, which training steps made before do not know.
        """
        converted: dict[int, Parameter | Buffer] = {}
        for _, layer in self.named_layers():
            for name, value in list(vars(layer).items()):
                if isinstance(value, Parameter | Buffer) and value.dtype.is_float:
                    new = converted.setdefault(id(value), value.converted(dtype))
                    setattr(layer, name, new)
        return self

    # --- state --------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """Return parameters and persistent buffers by name, in PyTorch's order.

        The tensors are the layer's own, not copies.
        """
        state: dict[str, Tensor] = {}
        for path, layer in self._walk(""):
            state |= {_join(path, name): value for name, value in layer._attributes(Parameter)}
            state |= {
                _join(path, name): value
                for name, value in layer._attributes(Buffer)
                if value.persistent
            }
        return state

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> LoadReport:
        """Copy tensors into the parameters and buffers of the same names.

        Args:
            state: arrays by name: NumPy's, teeny's, PyTorch's. Floats are converted to the type of
                the parameter; other kinds must agree.
            strict: raise unless every name is there, none is too many, and every shape fits;
                otherwise copy what fits.

        Returns:
            What did not fit.

        Raises:
            LoadError: strict, and something did not fit; nothing has been copied then.
        """
        own = self.state_dict()
        arrays = {name: np.asarray(state[name]) for name in own if name in state}
        misfits = {
            name: reason
            for name, array in arrays.items()
            if (reason := _misfit(name, own[name], array)) is not None
        }
        from teeny_core.state import LoadReport  # files: a model may never meet one

        report = LoadReport(
            missing=tuple(name for name in own if name not in state),
            unexpected=tuple(name for name in state if name not in own),
            mismatched=tuple(misfits.values()),
        )
        if strict and report:
            raise LoadError(
                f"the state does not fit {type(self).__name__}: {report}",
                hint="load it into the model it was saved from, or pass strict=False",
            )
        for name, array in arrays.items():
            if name not in misfits:
                own[name].assign(convert(array, own[name].dtype))
        return report

    # --- for people ---------------------------------------------------------

    def describe(self) -> str:
        """Return the arguments of the layer as they show in its `repr`."""
        return ""

    def __repr__(self) -> str:
        return "\n".join(_tree(self, "", ""))


def _once(pairs: Iterator[tuple[str, Kind]]) -> Iterator[tuple[str, Kind]]:
    """Drop what has come before, under any name."""
    seen: set[int] = set()
    for name, value in pairs:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _misfit(name: str, own: Tensor, array: Array) -> str | None:
    """Return why `array` cannot be copied into `own`, None if it can."""
    if array.shape != own.shape:
        return f"{name} has the shape {shapes.text(own.shape)}, not {shapes.text(array.shape)}"
    given = to_dtype(array.dtype)
    alike = (given.is_float, given.is_bool) == (own.dtype.is_float, own.dtype.is_bool)
    return None if alike else f"{name} has the dtype {own.dtype}, not {given}"


def _tree(layer: Layer[..., Any], name: str, indent: str) -> Iterator[str]:
    """Yield a line for each layer, indented, with its number of parameters."""
    label = f"{name}: " if name else ""
    count = sum(shapes.numel(parameter.shape) for parameter in layer.parameters())
    size = f"  # {count:,} parameters" if count else ""
    yield f"{indent}{label}{type(layer).__name__}({layer.describe()}){size}"
    for child_name, child in layer.children():
        yield from _tree(child, child_name, indent + "  ")
