"""The text form: printed, parsed, and the same again; and what the verifier refuses."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest
import teeny_triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core import DType, bf16, bool_, f32, f64, i32, i64, u8
from teeny_triton import (
    CompilationError,
    Facts,
    KernelError,
    Ptr,
    Tile,
    build_function,
    for_,
    if_,
    interpret,
    ir,
    parse,
    verify,
)
from teeny_triton.rules import RULES

EXAMPLE = """\
func @e(%x: ptr<f32> {alignment = 8, noalias = false, written = true}, %n: i64 {divisibility = 8}) {
  %pid = program_id {axis = 0} : i32
  %0 = const {value = -inf} : f32
  %1 = const {value = true} : bool
  %2 = const {value = 1e-05} : f32
  %offsets = arange {end = 8, start = 0} : tile<8xi32>
  %3 = splat %x : tile<8xptr<f32>>
  %4 = addptr %3, %offsets : tile<8xptr<f32>>
  %5 = load %4 {cache = ".ca", eviction = "evict \\"first\\"\\n"} : tile<8xf32>
  %6 = reshape %5 : tile<4x2xf32>
  %7 = trans %6 {order = (1, 0)} : tile<2x4xf32>
  %8, %9 = split %6 : tile<4xf32>, tile<4xf32>
  %10 = const {value = 1} : i64
  %total, %11 = for %10, %n, %10, %2, %0 : f32, f32 (%i: i64, %total_1: f32, %12: f32) {
    %13 = add %total_1, %12 : f32
    yield %13, %total_1
  }
  if %1 {
    store %x, %total
    yield
  } {
    device_print %total, %7 {hex = true, prefix = "total"}
    breakpoint %total {function = "f", names = "total"}
    yield
  }
}
"""


def test_the_text_is_the_function() -> None:
    function = verify(parse(EXAMPLE))
    assert str(function) == EXAMPLE
    assert function.key == parse(EXAMPLE).key
    x, n = function.parameters
    assert (x.alignment, x.noalias, x.written, n.divisibility) == (8, False, True, 8)


def test_names_of_values_do_not_change_meaning() -> None:
    other = parse(EXAMPLE.replace("%pid", "%7777").replace("// ", ""))
    assert str(verify(other)).count("=") == EXAMPLE.count("=")
    assert str(parse("// a comment\n" + EXAMPLE)) == EXAMPLE


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("func @f() {", "expected a word, not the end"),
        ("func f() {}", "expected a symbol, not `f`"),
        ("func @f() { %0 = const {value = 1} }", "1 results need as many types"),
        ("func @f() { %0 = const {value = 1} : i33 }", "`i33` is no type"),
        ("func @f() { store %a, %b }", "%a is not defined"),
        ("func @f(%a: i32, %a: i32) { }", "%a is defined twice"),
        ("func @f() { const {value = what} }", "expected a constant"),
        ("func @f() { ; }", "unexpected character"),
        ("func @f() { } func", "expected a end, not `func`"),
    ],
)
def test_parse_errors_point_at_the_text(wrong: str, message: str) -> None:
    with pytest.raises(CompilationError, match=re.escape(message)) as caught:
        parse(wrong)
    assert "<ir>:1:" in str(caught.value)
    assert "^" in str(caught.value)


# --- random functions: printed and parsed, they compute the same ---

DTYPES = [bool_, u8, i32, i64, bf16, f32, f64]


@st.composite
def functions(draw: st.DrawFn) -> ir.Function:
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3)))
    dtype: DType = draw(st.sampled_from([i32, f32]))
    with build_function("random", [("x", Ptr[dtype]), ("out", Ptr[dtype]), ("n", i32)]) as f:
        x, out, n = f.arguments
        size = int(np.prod(shape))
        offsets = tl.arange(0, size).reshape(shape)
        pool = [tl.load(x + offsets), (offsets + n).to(dtype)]
        for _ in range(draw(st.integers(1, 8))):
            pool.append(_step(draw, pool, n).to(dtype))
        tl.store(out + offsets, sum(pool[1:], pool[0]))
    return f.function


def _step(draw: st.DrawFn, pool: list[Tile], n: Tile) -> Tile:
    a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
    steps = [
        lambda: a + b,
        lambda: a * draw(st.integers(-3, 3)),
        lambda: tl.maximum(a, b),
        lambda: tl.where(a > b, a, b - 1),
        lambda: a.to(draw(st.sampled_from(DTYPES))),
        lambda: a.trans().trans() - 1,
        lambda: a - a.sum(0, keep_dims=True),
        lambda: tl.split(tl.join(a, b))[1],
        lambda: for_(0, n, 1, (a,), lambda i, c: c + b)[0],
        lambda: if_(n > draw(st.integers(0, 4)), lambda: a, lambda: b)[0],
    ]
    usable = steps if len(a.shape) > 1 else [*steps[:5], *steps[6:]]
    return draw(st.sampled_from(usable))()


@settings(max_examples=60, deadline=None)
@given(functions(), st.integers(0, 3))
def test_round_trip(function: ir.Function, n: int) -> None:
    verify(function)
    again = verify(parse(str(function)))
    assert str(again) == str(function)
    x = np.arange(64).astype(function.parameters[0].value.type.element.pointee.numpy)
    results = []
    for each in (function, again):
        out = np.zeros_like(x)
        interpret(each, (1,), [x, out, n])
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_facts_survive() -> None:
    specs = [("x", Ptr[f32], Facts(32, 1, False)), ("n", i32, Facts(0, 8))]
    with build_function("k", specs) as f:
        tl.store(f.arguments[0], f.arguments[1])
    assert [
        (p.alignment, p.divisibility, p.noalias, p.written)
        for p in parse(str(f.function)).parameters
    ] == [(32, 1, False, True), (0, 8, True, False)]


# --- the verifier ---

PARAMETERS = "%p: ptr<f32>, %q: ptr<i32>, %x: f32, %y: f64, %i: i32, %l: i64, %c: bool, %h: bf16"
TILES = """
%v = splat %x : tile<4xf32>
%w = splat %i : tile<4xi32>
%m = splat %c : tile<4xbool>
%a = splat %x : tile<2x4xf32>
%pp = splat %p : tile<4xptr<f32>>
"""

WRONG = {
    # opcode -> (text, message)
    "const": [
        ("%r = const {value = 1} : f32", "`value` must be float"),
        ("%r = const {value = 1.0} : i32", "`value` must be int"),
        ("%r = const {value = true} : i32", "`value` must be int"),
        ("%r = const {value = 1} : tile<4xi32>", "cannot be tile<4xi32>"),
        ("%r = const : i32", "`value` is missing"),
        ("%r = const %x {value = 1} : i32", "takes 0 operands, not 1"),
    ],
    "program_id": [("%r = program_id {axis = 3} : i32", "axis 3 is outside [0, 3)")],
    "num_programs": [("%r = num_programs {axis = 0} : i64", "gives i32, not i64")],
    "arange": [
        ("%r = arange {start = 4, end = 4} : tile<4xi32>", "is empty"),
        ("%r = arange {start = 0, end = 4} : tile<5xi32>", "gives tile<4xi32>, not tile<5xi32>"),
        ("%r = arange {start = 0, end = 4294967296} : tile<4xi32>", "does not fit i32"),
    ],
    "splat": [
        ("%r = splat %x : tile<4xi32>", "cannot fill"),
        ("%r = splat %v : tile<4xf32>", "cannot fill"),
    ],
    "expand_dims": [("%r = expand_dims %v {axis = 2} : tile<4x1xf32>", "axis 2 is outside")],
    "broadcast": [("%r = broadcast %v : tile<8xf32>", "cannot become tile<8xf32>")],
    "trans": [("%r = trans %a {order = (0, 0)} : tile<2x4xf32>", "is no permutation")],
    "reshape": [("%r = reshape %v : tile<5xf32>", "cannot become tile<5xf32>")],
    "join": [("%r = join %v, %w : tile<4x2xf32>", "the two differ in type")],
    "split": [("%r, %s = split %v : f32, f32", "the last axis must have extent 2")],
    "cat": [("%r = cat %v, %a {axis = 0} : tile<8xf32>", "the two do not match")],
    "fma": [("%r = fma %i, %i, %i : i32", "takes float elements")],
    "where": [
        ("%r = where %c, %v, %v : tile<4xf32>", "the condition must be tile<4xbool>"),
        ("%r = where %m, %v, %w : tile<4xf32>", "the two choices differ"),
    ],
    "cast": [("%r = cast %p : i64", "does not convert pointers")],
    "bitcast": [("%r = bitcast %x : i64", "the sizes differ")],
    "addptr": [
        ("%r = addptr %p, %x : ptr<f32>", "the offset must be i32 or i64"),
        ("%r = addptr %p, %w : ptr<f32>", "differ in shape"),
    ],
    "load": [
        ("%r = load %x : f32", "takes a pointer first"),
        ("%r = load %pp, %c : tile<4xf32>", "the mask must be tile<4xbool>"),
        ("%r = load %pp, %m, %w : tile<4xf32>", "`other` must be tile<4xf32>"),
        ("%r = load %p {speed = 1} : f32", "has no attribute `speed`"),
    ],
    "store": [("store %p, %y", "the value must be f32"), ("store %pp, %v, %c", "the mask must be")],
    "atomic_rmw": [
        ('%r = atomic_rmw %p, %i {kind = "add", sem = "relaxed"} : i32', "the value must be f32"),
        ('%r = atomic_rmw %p, %x {kind = "nand", sem = "relaxed"} : f32', "kind 'nand' is none"),
        ('%r = atomic_rmw %p, %x {kind = "or", sem = "relaxed"} : f32', "takes int or uint"),
        ('%r = atomic_rmw %p, %x {kind = "add", sem = "soon"} : f32', "sem 'soon' is none of"),
    ],
    "atomic_cas": [
        ('%r = atomic_cas %q, %i, %x {sem = "relaxed"} : i32', "the value must be i32"),
        ("%r = atomic_cas %q, %i, %i : i32", "`sem` is missing"),
    ],
    "prefetch": [
        ("prefetch %p {level = 4, write = false}", "level 4 is none of (1, 2, 3)"),
        ("prefetch %p {level = 1, write = 1}", "`write` must be bool"),
    ],
    "scratch": [
        ("%r = scratch {size = 0} : ptr<f32>", "needs a positive size"),
        ("%r = scratch {size = 4} : f32", "cannot be f32"),
    ],
    "reduce": [
        ('%r = reduce %v {kind = "mean", axis = 0} : f32', "kind 'mean' is none of"),
        ('%r = reduce %v {kind = "xor_sum", axis = 0} : f32', "takes bool or int or uint"),
        ('%r = reduce %v {kind = "argmax", axis = 0} : f32', "gives i32, not f32"),
        ('%r = reduce %x {kind = "sum", axis = 0} : f32', "axis 0 is outside [0, 0)"),
    ],
    "reduce_by": [
        ("%r = reduce_by %v {axis = 0} : f32 (%s: f32, %t: f32) {\nyield %i\n}", "yields (i32)"),
        ("%r = reduce_by %v {axis = 0} : f32", "has one region"),
        ("%r = reduce_by %v {axis = 1} : f32 (%s: f32, %t: f32) {\nyield %s\n}", "axis 1 is"),
        (
            "%r = reduce_by %v {axis = 0} : f32 (%s: f32, %t: f32) {\n%u = load %p : f32\n"
            "yield %u\n}",
            "cannot combine by load",
        ),
    ],
    "scan": [
        (
            "%r = scan %v {axis = 0, reverse = false} : tile<4xf32> (%s: f32) {\nyield %s\n}",
            "region 0 takes (f32)",
        ),
        (
            "%r, %s = scan %v, %a {axis = 0, reverse = false} : tile<4xf32>, tile<2x4xf32>",
            "the tiles differ in shape",
        ),
        ("%r = scan %pp {axis = 0, reverse = true} : tile<4xptr<f32>>", "not combine pointers"),
    ],
    "sort": [
        ("%r = sort %v {axis = 0, descending = true, keep = 5} : tile<5xf32>", "keep 5 of 4"),
        ("%r = sort %pp {axis = 0, descending = true, keep = 4} : tile<4xptr<f32>>", "an order"),
    ],
    "gather": [
        ("%r = gather %v, %v {axis = 0} : tile<4xf32>", "the index must be i32 or i64"),
        ("%r = gather %a, %w {axis = 0} : tile<4xf32>", "extents differ off axis 0"),
    ],
    "flip": [("%r = flip %v {axis = 1} : tile<4xf32>", "axis 1 is outside [0, 1)")],
    "histogram": [
        ("%r = histogram %v : tile<8xi32>", "takes one axis of integers"),
        ("%r = histogram %w, %c : tile<8xi32>", "the mask must be tile<4xbool>"),
        ("%r = histogram %w : tile<8xi64>", "gives tile<8xi32>"),
    ],
    "dot": [
        ("%r = dot %v, %v, %v : tile<4xf32>", "takes two matrices"),
        ("%r = dot %a, %a, %a : tile<2x4xf32>", "inner extents 4 and 2 differ"),
    ],
    "dot_words": [
        ('%r = dot_words %v, %v, %v {left = "i8", right = "i8"} : tile<4xf32>', "three of i32"),
        ('%r = dot_words %w, %w, %w {left = "i16", right = "i8"} : tile<4xi32>', "of i16 and i8"),
    ],
    "for": [
        ("for %i, %l, %i (%k: i32) {\nyield\n}", "three i32 or three i64"),
        ("for %i, %i, %i (%k: i64) {\nyield\n}", "region 0 takes (i64)"),
        ("%r = for %i, %i, %i, %x : f32 (%k: i32, %z: f32) {\nyield %k\n}", "yields (i32) instead"),
        ("for %i, %i, %i", "has one region"),
        ("for %i, %i, %i (%k: i32) {\nstore %p, %x\n}", "does not end in `yield`"),
    ],
    "while": [
        ("while {\nyield %i\n} {\nyield\n}", "region 0 yields (i32) instead of (bool)"),
        ("while {\nyield %c\n}", "has two regions"),
    ],
    "if": [
        ("if %i {\nyield\n} {\nyield\n}", "the condition must be one bool"),
        ("%r = if %c : f32 {\nyield %x\n} {\nyield %y\n}", "region 1 yields (f64) instead"),
    ],
    "yield": [("yield", "ends no region here")],
    "device_assert": [('device_assert %i {message = ""}', "takes a bool")],
    "device_print": [
        ("device_print %i", "`prefix` is missing"),
        ('device_print %i {prefix = "", hex = 1}', "`hex`"),
    ],
    "breakpoint": [
        ('breakpoint %i {names = "i"}', "`function` is missing"),
        ('breakpoint %i {function = "f", names = "i j"}', "takes 2 operands"),
    ],
}
for _name in ir.UNARY_FLOAT:
    WRONG[_name] = [(f"%r = {_name} %i : i32", "takes float elements")]
for _name in ("neg", "abs"):
    WRONG[_name] = [(f"%r = {_name} %c : bool", "takes int or uint or float elements")]
WRONG["not"] = [("%r = not %x : f32", "takes bool or int or uint elements")]
for _name in ir.BINARY:
    WRONG[_name] = [(f"%r = {_name} %x, %y : f32", "the two differ in type")]
for _name in ("maxnum", "minnum"):
    WRONG[_name] += [(f"%r = {_name} %i, %i : i32", "takes float elements")]
for _name in ("and", "or", "xor", "shl", "shr", "umulhi"):
    WRONG[_name] += [(f"%r = {_name} %x, %x : f32", "elements")]
WRONG["div"] += [("%r = div %i, %i : i32", "takes float elements")]
WRONG["add"] += [("%r = add %c, %c : bool", "elements")]
for _name in ir.COMPARISONS:
    WRONG[_name] = [(f"%r = {_name} %x, %i : bool", "the two differ in type")]
WRONG["lt"] += [("%r = lt %p, %p : bool", "elements have no such order")]

CASES = [(opcode, *case) for opcode, cases in WRONG.items() for case in cases]


@pytest.mark.parametrize(("opcode", "text", "message"), CASES)
def test_verifier_refuses(opcode: str, text: str, message: str) -> None:
    body = textwrap.indent(TILES + text, "  ")
    function = parse(f"func @k({PARAMETERS}) {{\n{body}\n}}")
    line = text.split("\n")[0].removesuffix(" {")
    with pytest.raises(KernelError, match=re.escape(message)) as caught:
        verify(function)
    assert caught.value.message.startswith("@k: `")
    assert opcode in line
    assert f" {opcode}" in caught.value.message.replace("`", " ")


def test_every_opcode_is_checked() -> None:
    assert set(WRONG) == set(ir.OPCODES) == set(RULES)


def test_dominance_and_single_definition() -> None:
    function = parse(
        "func @k(%p: ptr<f32>, %c: bool, %x: f32) {\n"
        "  %r = if %c : f32 {\n    %a = exp %x : f32\n    yield %a\n  } {\n    yield %x\n  }\n"
        "  store %p, %r\n}"
    )
    verify(function)
    inner = function.body.ops[0].regions[0].ops[0]
    leaked = ir.Op("store", (function.parameters[0].value, inner.result), (), {})
    for body, message in [
        ([*function.body.ops, leaked], "operand 1 is not defined before it is used"),
        (function.body.ops[::-1], "operand 1 is not defined before it is used"),
        ([*function.body.ops, function.body.ops[0]], "defined twice|defines a value twice"),
    ]:
        broken = ir.Function("k", function.parameters, ir.Block((), list(body)))
        with pytest.raises(KernelError, match=message):
            verify(broken)


def test_functions_have_names() -> None:
    with pytest.raises(KernelError, match="is not a valid name"):
        verify(ir.Function("9 lives", (), ir.Block()))
    tile = ir.Parameter(ir.Value(ir.Type((4,), f32)), "x")
    with pytest.raises(KernelError, match="a parameter is a tile"):
        verify(ir.Function("k", (tile,), ir.Block()))
    one = ir.Parameter(ir.Value(ir.Type((), f32)), "x")
    with pytest.raises(KernelError, match="share a name"):
        verify(ir.Function("k", (one, one), ir.Block()))


def test_verification_runs_when_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_DEBUG", "1")
    with pytest.raises(KernelError, match="is not a valid name"), build_function("9 lives", []):
        pass


def test_a_region_may_begin_with_a_value() -> None:
    """`{` begins attributes only where a name follows."""
    text = """func @f(%x: ptr<i32>, %c: bool) {
  if %c {
    %0 = const {value = 1} : i32
    store %x, %0
    yield
  } {
    yield
  }
}
"""
    assert str(verify(parse(text))) == text
