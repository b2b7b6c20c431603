"""What a layer is: names, order, state, modes, shared parts, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import nn

Run = Callable[..., Any]


class Block(nn.Layer[[tn.AnyTensor], tn.AnyTensor]):
    def __init__(self, width: int) -> None:
        self.scale = nn.Parameter(np.ones(width), tn.f32)
        self.seen = nn.Buffer(0)
        self.cache = nn.Buffer(np.zeros(3), persistent=False)
        self.first = nn.Linear(width, width)
        self.rest = nn.LayerList([nn.Linear(width, width, bias=False), nn.ReLU()])
        self.norm = None

    def call(self, x: tn.AnyTensor) -> tn.AnyTensor:
        x = self.first(x) * self.scale
        for layer in self.rest:
            x = layer(x)
        return x


class Model(nn.Layer[[tn.AnyTensor], tn.AnyTensor]):
    def __init__(self) -> None:
        self.blocks = nn.Sequential(Block(3), Block(3))
        self.out = nn.Linear(3, 2)

    def call(self, x: tn.AnyTensor) -> tn.AnyTensor:
        return self.out(self.blocks(x))


def torch_model(torch: Any) -> Any:
    class TorchBlock(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(3))
            self.register_buffer("seen", torch.tensor(0))
            self.register_buffer("cache", torch.zeros(3), persistent=False)
            self.first = torch.nn.Linear(3, 3)
            layers = [torch.nn.Linear(3, 3, bias=False), torch.nn.ReLU()]
            self.rest = torch.nn.ModuleList(layers)
            self.norm = None

    class TorchModel(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.Sequential(TorchBlock(), TorchBlock())
            self.out = torch.nn.Linear(3, 2)

    return TorchModel()


def test_names_and_order_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = Model(), torch_model(torch)
    for listed in ("named_parameters", "named_buffers"):
        names = [name for name, _ in getattr(ours, listed)()]
        assert names == [name for name, _ in getattr(theirs, listed)()]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_layers()] == [n for n, _ in theirs.named_modules()]


def test_shared_parts_count_once_and_keep_all_their_names() -> None:
    torch = pytest.importorskip("torch")
    layer = nn.Linear(2, 2)
    ours = nn.Sequential(layer, layer, nn.Linear(2, 2))
    ours[2].weight = layer.weight
    peer = torch.nn.Linear(2, 2)
    theirs = torch.nn.Sequential(peer, peer, torch.nn.Linear(2, 2))
    theirs[2].weight = peer.weight
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert len(list(ours.named_layers())) == len(list(theirs.named_modules()))


def test_scopes_name_the_nodes() -> None:
    graph = tn.trace(Model(), tn.SymTensor.input(tn.f32, (None, 3)))
    scopes = {node.scope for node in graph.nodes if node.op in ("matmul", "relu")}
    assert scopes == {
        "blocks.0.first",
        "blocks.0.rest.0",
        "blocks.0.rest.1",
        "blocks.1.first",
        "blocks.1.rest.0",
        "blocks.1.rest.1",
        "out",
    }
    names = {parameter.attrs["name"] for parameter in graph.parameters}
    assert names == {name for name, _ in Model().named_parameters()}


def test_state_goes_from_model_to_model() -> None:
    one, two = Model(), Model()
    assert any(
        (a.numpy() != b.numpy()).any()
        for a, b in zip(one.parameters(), two.parameters(), strict=True)
    )
    held = dict(two.named_parameters())
    report = two.load_state_dict(one.state_dict())
    assert not report
    for name, value in one.state_dict().items():
        np.testing.assert_array_equal(two.state_dict()[name].numpy(), value.numpy())
    assert all(held[name] is parameter for name, parameter in two.named_parameters())
    one.out.weight.assign(0.0)
    assert two.out.weight.numpy().any()


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    model = Model()
    before = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    state: dict[str, Any] = {name: np.ones_like(value) for name, value in before.items()}
    del state["out.bias"]
    state["extra"] = np.zeros(1)
    state["out.weight"] = np.zeros((2, 4), np.float32)
    state["blocks.0.seen"] = np.zeros((), np.float32)
    with pytest.raises(tn.LoadError) as caught:
        model.load_state_dict(state)
    for part in ("missing: out.bias", "unexpected: extra", "out.weight has the shape [2, 3]"):
        assert part in str(caught.value)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])

    report = model.load_state_dict(state, strict=False)
    assert report.missing == ("out.bias",)
    assert report.unexpected == ("extra",)
    assert len(report.mismatched) == 2
    np.testing.assert_array_equal(model.out.weight.numpy(), before["out.weight"])
    np.testing.assert_array_equal(model.out.bias.numpy(), before["out.bias"])  # type: ignore[union-attr]
    assert (model.blocks[0].scale.numpy() == 1).all()


@pytest.mark.parametrize("given", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("held", ["f32", "bf16", "f16"])
def test_floats_are_converted(held: str, given: str) -> None:
    layer = nn.Linear(2, 2, bias=False, dtype=held)
    values = np.array([[0.26914, 1.5], [-2.0, 0.1]]).astype(tn.dtype(given).numpy)
    layer.load_state_dict({"weight": values})
    expected = values.astype(tn.dtype(held).numpy)
    np.testing.assert_array_equal(layer.weight.numpy(), expected)


def test_modes() -> None:
    model = Model()
    assert model.training
    assert model.eval() is model
    assert not any(layer.training for _, layer in model.named_layers())
    model.train()
    assert all(layer.training for _, layer in model.named_layers())
    assert not model.in_training
    with tn.training():
        assert model.in_training
        assert not model.eval().in_training


def test_a_frozen_part_keeps_its_statistics(run: Run) -> None:
    model = nn.Sequential(nn.BatchNorm2d(2), nn.BatchNorm2d(2).eval())
    x = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)
    _, updates = run(model, x, train=True, parameters=dict(model.named_tensors()))
    assert set(updates) == {"0.running_mean", "0.running_var", "0.num_batches_tracked"}


def test_apply_goes_from_the_inside_out() -> None:
    order: list[str] = []
    model = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh())
    assert model.apply(lambda layer: order.append(type(layer).__name__)) is model
    assert order == ["ReLU", "Sequential", "Tanh", "Sequential"]


def test_numbered_layers() -> None:
    layers = nn.LayerList([nn.ReLU()])
    layers.append(nn.Tanh())
    layers.extend([nn.Sigmoid(), nn.GELU()])
    assert len(layers) == 4
    assert isinstance(layers[-1], nn.GELU)
    assert [type(layer) for layer in layers[1:3]] == [nn.Tanh, nn.Sigmoid]
    with pytest.raises(IndexError, match="items go from 0 to 3"):
        layers[4]
    parameters = nn.ParameterList([nn.Parameter([1.0]), nn.Parameter([2.0])])
    assert [name for name, _ in parameters.named_parameters()] == ["0", "1"]


def test_repr_shows_the_tree_and_counts() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, (3, 5), stride=2, padding="valid", bias=False), nn.MaxPool2d(3, 2, 1)
    )
    assert repr(model).splitlines() == [
        "Sequential()  # 360 parameters",
        "  0: Conv2d(3, 8, (3, 5), stride=2, padding=valid, bias=False)  # 360 parameters",
        "  1: MaxPool2d(3, stride=2, padding=1)",
    ]


def test_parameters_are_not_replaced_by_mistake() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(tn.OpError, match=r"assign\(value\)"):
        layer.weight = tn.zeros(2, 2)  # type: ignore[assignment]
    layer.weight = nn.Parameter(np.zeros((2, 2)), tn.f32)
    layer.bias = None
    assert list(layer.state_dict()) == ["weight"]


def test_parameters_have_memory_of_their_own() -> None:
    source = tn.Tensor([1.0, 2.0])
    parameter = nn.Parameter(source)
    parameter.assign(np.array([5, 6], np.float32))
    np.testing.assert_array_equal(source.numpy(), [1, 2])


def test_a_layer_without_call() -> None:
    with pytest.raises(tn.OpError, match="define its method `call`"):
        nn.LayerList([nn.ReLU()])(tn.Tensor([1.0]))


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: nn.Conv2d(0, 2, 3), "in_channels = 0"),
    (lambda: nn.Conv2d(2, -1, 3), "out_channels = -1"),
    (lambda: nn.Conv2d(2, 2, 0), "kernel_size = 0"),
    (lambda: nn.Conv2d(2, 2, (3, 3, 3)), "kernel_size = "),
    (lambda: nn.Conv2d(2, 2, 3, stride=0), "stride = 0"),
    (lambda: nn.Conv2d(2, 2, 3, stride=(1, -2)), "stride = -2"),
    (lambda: nn.Conv2d(2, 2, 3, padding=-1), "padding = -1"),
    (lambda: nn.Conv2d(2, 2, 3, padding=((0, 1), (2, -3))), "padding = -3"),
    (lambda: nn.Conv2d(2, 2, 3, padding="full"), "padding = 'full'"),
    (lambda: nn.Conv2d(2, 2, 3, stride=2, padding="same"), "padding = 'same' with stride"),
    (lambda: nn.Conv2d(2, 2, 3, dilation=-1), "dilation = -1"),
    (lambda: nn.Conv2d(2, 2, 3, dilation=0), "dilation = 0"),
    (lambda: nn.Conv2d(2, 2, 3, groups=0), "groups = 0"),
    (lambda: nn.Conv2d(6, 4, 3, groups=4), "groups = 4 does not divide in_channels = 6"),
    (lambda: nn.Conv2d(4, 6, 3, groups=4), "groups = 4 does not divide out_channels = 6"),
    (lambda: nn.MaxPool2d(2, 0), "stride = 0"),
    (lambda: nn.MaxPool2d(2, padding=2), "at most half"),
    (lambda: nn.AvgPool2d(0), "kernel_size = 0"),
    (lambda: nn.Linear(0, 3), "in_features = 0"),
    (lambda: nn.GroupNorm(3, 4), "num_groups = 3 does not divide"),
    (lambda: nn.MultiheadAttention(6, 4), "num_heads = 4 does not divide"),
    (lambda: nn.Embedding(3, 2, padding_idx=3), "padding_idx = 3"),
    (lambda: nn.Dropout(1.5), "p = 1.5"),
    (lambda: nn.TransformerEncoderLayer(4, 2, activation="swish"), "choose from relu, gelu"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_senseless_arguments(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(tn.TeenyError) as caught:
        make()
    assert message in str(caught.value)
    assert "\nhint: " in str(caught.value)


MISFITS: list[tuple[nn.Layer[..., Any], tuple[int, ...], str]] = [
    (nn.Linear(3, 2), (4, 5), "linear: x is f32[4, 5]"),
    (nn.LayerNorm(3), (4, 5), "layer_norm: the last axes"),
    (nn.RmsNorm((2, 3)), (3,), "rms_norm: the last axes"),
    (nn.GroupNorm(2, 4), (2, 5, 3), "group_norm"),
    (nn.BatchNorm2d(3), (2, 4, 5, 5), "num_features = 3"),
    (nn.AdaptiveAvgPool2d(2), (1, 1, 3, 4), "windows would differ"),
    (nn.Embedding(3, 2), (2, 2), "cast the index"),
]


@pytest.mark.parametrize(("layer", "shape", "message"), MISFITS, ids=[m for _, _, m in MISFITS])
def test_inputs_that_do_not_fit(
    layer: nn.Layer[..., Any], shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(tn.TeenyError) as caught:
        tn.trace(layer, tn.SymTensor.input(tn.f32, shape))
    assert message in str(caught.value)
    assert "\nhint: " in str(caught.value)


def test_conversion_to_another_type() -> None:
    layer = nn.Linear(2, 2, bias=False)
    model = nn.Sequential(layer, nn.BatchNorm2d(3), layer, nn.Embedding(2, 2))
    buffer = nn.Buffer([1.0], persistent=False)
    model[1].extra = buffer
    assert model.to("bf16") is model
    types = {name: value.dtype.name for name, value in model.state_dict().items()}
    assert types.pop("1.num_batches_tracked") == "i64"
    assert set(types.values()) == {"bf16"}
    assert model[0].weight is model[2].weight
    assert model[1].extra is not buffer
    assert "1.extra" not in types
