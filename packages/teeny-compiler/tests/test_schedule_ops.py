"""Every op, alone, through fusion and generated kernels against the op's own meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import DType, Graph, Node, ops, symbol

RNG = np.random.default_rng(0)
N = symbol("n")

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, np.inf, -np.inf, np.nan, 1e-40, 3e4, -7.0]


def graph_of(function: Callable[..., Node], *types: tuple[tuple[Any, ...], DType]) -> Graph:
    leaves = tuple(ops.input(f"x{i}", shape, dtype) for i, (shape, dtype) in enumerate(types))
    result = function(*leaves)
    return Graph("op", leaves, (), result if isinstance(result, tuple) else (result,))


def floats(*shape: int, dtype: DType = tn.f32) -> Any:
    values = RNG.standard_normal(shape) * 2
    flat = values.reshape(-1)
    count = min(len(SPECIAL), flat.size)
    flat[:count] = SPECIAL[:count]
    return RNG.permutation(flat).reshape(shape).astype(dtype.numpy)


def finite(*shape: int, dtype: DType = tn.f32) -> Any:
    return RNG.standard_normal(shape).astype(dtype.numpy)


def ints(*shape: int, dtype: DType = tn.i32) -> Any:
    low, high = (0, 100) if dtype.kind == "uint" else (-50, 50)
    return RNG.integers(low, high, shape).astype(dtype.numpy)


UNARY = [d.name for d in ops.all_ops() if "elementwise" in d.traits and d.arity == 1]
BINARY = [d.name for d in ops.all_ops() if "elementwise" in d.traits and d.arity == 2]
CASTS = ("cast", "bitcast", "stop_gradient")


def taking(names: Sequence[str], dtypes: Sequence[DType], arity: int, **attrs: Any) -> list[Any]:
    """Return the pairs of an op and a type that it takes."""
    kinds = [(name, dtype) for name in names for dtype in dtypes]
    return [
        pytest.param(name, dtype, id=f"{name} {dtype}")
        for name, dtype in kinds
        if takes(name, dtype, arity, **attrs)
    ]


def takes(name: str, dtype: DType, arity: int, **attrs: Any) -> bool:
    attrs = {"axis": 1} if name.startswith("arg") else attrs
    try:
        ops.get(name).check((tn.TensorType((2, 3), dtype),) * arity, tn.Attrs(attrs))
    except tn.DTypeError:
        return False
    return True


ANY = (tn.f32, tn.f64, tn.bf16, tn.i32, tn.u8, tn.bool_)


@pytest.mark.parametrize(
    ("name", "dtype"), taking([name for name in UNARY if name not in CASTS], ANY, 1)
)
def test_unary(name: str, dtype: DType, check: Any) -> None:
    graph = graph_of(lambda x: ops_apply(name, x), ((N, 5), dtype))
    value = floats(7, 5, dtype=dtype) if dtype.is_float else ints(7, 5, dtype=dtype)
    tolerance = 1e-2 if dtype == tn.bf16 else 2e-6
    check(graph, [value], rtol=tolerance)


@pytest.mark.parametrize(
    ("name", "dtype"), taking(BINARY, (tn.f32, tn.f16, tn.i64, tn.u32, tn.bool_), 2)
)
def test_binary(name: str, dtype: DType, check: Any) -> None:
    graph = graph_of(lambda x, y: ops_apply(name, x, y), ((9, 3), dtype), ((9, 3), dtype))
    make = floats if dtype.is_float else ints
    check(graph, [make(9, 3, dtype=dtype), make(9, 3, dtype=dtype)], rtol=2e-3 * (dtype.bits < 32))


def ops_apply(name: str, *operands: Node, **attrs: Any) -> Node:
    from teeny_core.graph import apply

    return apply(name, *operands, **attrs)


@pytest.mark.parametrize("source", [tn.f32, tn.i64, tn.bool_, tn.bf16, tn.f8e4m3], ids=str)
@pytest.mark.parametrize("target", [tn.f32, tn.i32, tn.u8, tn.bool_, tn.f16, tn.f8e5m2], ids=str)
def test_cast(source: DType, target: DType, check: Any) -> None:
    value = finite(11, dtype=source) if source.is_float else ints(11, dtype=source)
    check(graph_of(lambda x: ops.cast(x, target), ((11,), source)), [value])


def test_bitcast(check: Any) -> None:
    check(graph_of(lambda x: ops.bitcast(x, tn.u32), ((N,), tn.f32)), [floats(21)])


def test_where_does_not_mix(check: Any) -> None:
    graph = graph_of(
        lambda c, x, y: ops.where(c, x, y), ((6,), tn.bool_), ((6,), tn.f32), ((6,), tn.f32)
    )
    check(graph, [ints(6, dtype=tn.bool_), floats(6), floats(6)])


MOVES: dict[str, Callable[[Node], Node]] = {
    "permute": lambda x: ops.permute(x, (2, 0, 1)),
    "reshape": lambda x: ops.reshape(x, (x.shape[0] * 5, 6)),
    "slice": lambda x: ops.slice(x, (1, 0, 1), (x.shape[0], 5, 6), (1, 2, 3)),
    "flip": lambda x: ops.flip(x, (0, 2)),
    "pad": lambda x: ops.pad(x, (1, 0, 2), (0, 3, 1), 7.5),
    "concat": lambda x: ops.concat((x, ops.mul(x, x), ops.slice(
        x, (0, 0, 0), (x.shape[0], 2, 6), (1, 1, 1))), 1),
    "broadcast": lambda x: ops.broadcast_to(x, (2, *x.shape)),
    "split and transpose": lambda x: ops.reshape(
        ops.permute(ops.reshape(x, (x.shape[0], 5, 2, 3)), (0, 2, 1, 3)), (x.shape[0], 2, 15)
    ),
    "pad, flip, reshape": lambda x: ops.reshape(
        ops.flip(ops.pad(x, (0, 1, 0), (0, 0, 2), -1.0), (1,)), (x.shape[0], 48)
    ),
    "slice of merged axes": lambda x: ops.slice(
        ops.reshape(ops.permute(x, (0, 2, 1)), (x.shape[0], 30)), (0, 7), (x.shape[0], 29), (1, 2)
    ),
}  # fmt: skip


@pytest.mark.parametrize("extent", [4, N], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", MOVES)
def test_movement(name: str, extent: Any, check: Any) -> None:
    check(graph_of(MOVES[name], ((extent, 5, 6), tn.f32)), [floats(4, 5, 6)])
    computed = graph_of(lambda x: ops.add(ops.neg(MOVES[name](ops.abs(x))), MOVES[name](x)),
                        ((extent, 5, 6), tn.f32))  # fmt: skip
    check(computed, [finite(4, 5, 6)])


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_reductions(name: str, axes: tuple[int, ...], check: Any) -> None:
    graph = graph_of(lambda x: ops_apply(name, x, axes=axes), ((N, 5, 9), tn.f32))
    check(graph, [finite(7, 5, 9)])
    check(graph, [floats(7, 5, 9)])


@pytest.mark.parametrize(
    ("name", "dtype"),
    taking(
        ("sum", "prod", "max", "min", "argmax", "argmin"),
        (tn.f16, tn.bf16, tn.f64, tn.i32, tn.u8, tn.bool_),
        1,
        axes=(1,),
    ),
)
def test_reductions_of_types(name: str, dtype: DType, check: Any) -> None:
    attrs: dict[str, Any] = {"axis": 1} if name.startswith("arg") else {"axes": (1,)}
    graph = graph_of(lambda x: ops_apply(name, x, **attrs), ((4, 37), dtype))
    value = finite(4, 37, dtype=dtype) if dtype.is_float else ints(4, 37, dtype=dtype)
    check(graph, [value], rtol=1e-2 if dtype.bits < 32 else 1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arguments_of_extremes(name: str, axis: int, check: Any) -> None:
    graph = graph_of(lambda x: ops_apply(name, x, axis=axis), ((5, N, 6), tn.f32))
    ties = ints(5, 9, 6).astype(np.float32) // 20
    check(graph, [ties])
    ties[2, 3, 1] = ties[4, 5, 1] = ties[0, 8, 5] = np.nan
    check(graph, [ties])
    check(graph, [np.full((5, 9, 6), -np.inf if name == "argmax" else np.inf, np.float32)])


def test_sums_of_narrow_floats_do_not_stall(check: Any) -> None:
    check(graph_of(lambda x: ops.sum(x, (0,)), ((4096,), tn.f16)), [np.ones(4096, np.float16)])


def test_empty_extents(check: Any) -> None:
    graph = graph_of(lambda x: (ops.sum(x, (0,)), ops.neg(x)), ((N, 3), tn.f32))  # type: ignore[arg-type, return-value]
    check(graph, [np.zeros((0, 3), np.float32)])


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("dtype", [tn.f32, tn.bf16, tn.i32], ids=str)
def test_matmul(transpose_a: bool, transpose_b: bool, dtype: DType, check: Any) -> None:
    a = (2, 5, N) if transpose_a else (2, N, 5)
    b = (2, 7, 5) if transpose_b else (2, 5, 7)
    graph = graph_of(
        lambda x, y: ops.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b),
        (a, dtype),
        (b, dtype),
    )
    make = finite if dtype.is_float else ints
    shapes = [tuple(4 if n is N else n for n in shape) for shape in (a, b)]
    check(graph, [make(*s, dtype=dtype) for s in shapes], rtol=1e-2 * (dtype.bits < 32) or 1e-5)


SLIDING: dict[str, dict[str, Any]] = {
    "plain": {},
    "padded": {"padding": ((1, 2), (0, 1))},
    "strided": {"stride": (2, 1), "padding": ((1, 0), (1, 1))},
    "dilated": {"dilation": (1, 2)},
    "grouped": {"groups": 2, "stride": (2, 2)},
    "depthwise": {"groups": 4, "padding": ((1, 1), (1, 1))},
}


@pytest.mark.parametrize("name", SLIDING)
def test_convolution_and_gradients(name: str, check: Any) -> None:
    sliding = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    sliding.update(SLIDING[name])
    channels = 4 // sliding["groups"]
    x, w = (N, 4, 7, 6), (4, channels, 3, 2)
    forward = graph_of(lambda x, w: ops.conv2d(x, w, **sliding), (x, tn.f32), (w, tn.f32))
    values = [finite(2, 4, 7, 6), finite(*w)]
    check(forward, values)
    out = forward.outputs[0].shape
    dy = finite(2, *out[1:])  # type: ignore[arg-type]
    check(
        graph_of(
            lambda dy, w: ops.conv2d_grad_input(dy, w, input_shape=x, **sliding),
            (out, tn.f32),
            (w, tn.f32),
        ),
        [dy, values[1]],
    )
    check(
        graph_of(
            lambda x, dy: ops.conv2d_grad_weight(x, dy, weight_shape=w, **sliding),
            (x, tn.f32),
            (out, tn.f32),
        ),
        [values[0], dy],
    )


POOLS = [
    {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0))},
    {"kernel": (3, 2), "stride": (2, 1), "padding": ((1, 1), (0, 1))},
]


@pytest.mark.parametrize("window", POOLS, ids=["plain", "overlapping"])
@pytest.mark.parametrize("dtype", [tn.f32, tn.f16], ids=str)
def test_pools_and_gradients(window: dict[str, Any], dtype: DType, check: Any) -> None:
    x = (N, 3, 6, 5)
    value = np.round(finite(2, 3, 6, 5) * 2).astype(dtype.numpy)
    value[0, 1, 2, 2] = np.nan
    forward = graph_of(lambda x: ops.max_pool2d(x, **window), (x, dtype))
    check(forward, [value])
    out = forward.outputs[0].shape
    dy = finite(2, *out[1:], dtype=dtype)  # type: ignore[arg-type]
    check(
        graph_of(lambda x, dy: ops.max_pool2d_grad(x, dy, **window), (x, dtype), (out, dtype)),
        [value, dy],
        rtol=1e-3,
    )
    for counted in (False, True):
        mean = {**window, "count_include_pad": counted}
        check(graph_of(lambda x, m=mean: ops.avg_pool2d(x, **m), (x, dtype)), [value], rtol=1e-3)
        check(
            graph_of(lambda dy, m=mean: ops.avg_pool2d_grad(dy, input_shape=x, **m), (out, dtype)),
            [dy],
            rtol=1e-3,
            atol=1e-3 if dtype == tn.f16 else 1e-6,
        )


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", [tn.i64, tn.u8], ids=str)
def test_indexing_and_gradients(axis: int, dtype: DType, check: Any) -> None:
    x = (4, 5, 6)
    value, extent = finite(*x), x[axis]
    index = RNG.integers(0, extent, (3, 2)).astype(dtype.numpy)
    take = graph_of(lambda x, i: ops.take(x, i, axis), (x, tn.f32), ((3, 2), dtype))
    check(take, [value, index])
    out = take.outputs[0].shape
    dy = finite(*out)  # type: ignore[arg-type]
    for kind in (tn.f32, tn.f16):
        check(
            graph_of(
                lambda i, dy: ops.take_grad(i, dy, shape=x, axis=axis),
                ((3, 2), dtype),
                (out, kind),
            ),
            [index, dy.astype(kind.numpy)],
            rtol=1e-3,
        )
    for count in (1, 3):
        shape = (*x[:axis], count, *x[axis + 1 :])
        along = RNG.integers(0, extent, shape).astype(dtype.numpy)
        check(
            graph_of(lambda x, i: ops.take_along(ops.neg(x), i, axis), (x, tn.f32), (shape, dtype)),
            [value, along],
        )
        check(
            graph_of(
                lambda i, dy: ops.take_along_grad(i, dy, shape=x, axis=axis),
                (shape, dtype),
                (shape, tn.f32),
            ),
            [along, finite(*shape)],
        )


def test_leaves(check: Any) -> None:
    def build(x: Node) -> tuple[Node, ...]:
        size = ops.size(N * 2 + 1, tn.i64)
        literal = ops.array(np.arange(3, dtype=np.float32))
        grid = ops.iota((N, 3), 0, tn.f32)
        return (
            ops.add(x, ops.mul(grid, ops.broadcast_to(literal, (N, 3)))),
            size,
            ops.constant(2.5, tn.f32),
            ops.permute(ops.iota((3, N), 1, tn.i32), (1, 0)),
        )

    check(graph_of(build, ((N, 3), tn.f32)), [finite(5, 3)])  # type: ignore[arg-type]


def test_random_bits_match_the_definition(check: Any) -> None:
    state = ops.input("random.state", (4,), tn.u32)
    bits = ops.random_bits(state, shape=(3, N), site=7)
    x = ops.input("x", (N,), tn.f32)
    wide = ops.broadcast_to(x, (3, N))
    kept = ops.where(ops.lt(bits, ops.full((3, N), 1 << 31, tn.u32)), wide, ops.neg(wide))
    graph = Graph("random", (x,), (state,), (bits, kept))
    check(graph, [finite(10)], {"random.state": np.array([1, 2, 3, 0], np.uint32)})


@pytest.mark.parametrize("shape", [(9, 13), (N, 13), (16, N), (2, 9, N)], ids=str)
def test_transposes_turn_squares(shape: tuple[Any, ...], check: Any) -> None:
    rank = len(shape)

    def build(x: Node, y: Node) -> Node:
        turned = ops.permute(ops.mul(x, x), (*range(rank - 2), rank - 1, rank - 2))
        return ops.add(turned, y)

    turned = (*shape[:-2], shape[-1], shape[-2])
    graph = graph_of(build, (shape, tn.f32), (turned, tn.f32))
    sizes = [tuple(11 if n is N else n for n in s) for s in (shape, turned)]
    schedule = check(graph, [finite(*size) for size in sizes])
    assert "tile<4x4xf32>" in str(schedule.functions[0])


def test_a_padded_transpose(check: Any) -> None:
    graph = graph_of(
        lambda x: ops.permute(ops.pad(x, (1, 0), (0, 2), 3.0), (1, 0)), ((N, 9), tn.f32)
    )
    check(graph, [finite(7, 9)])
