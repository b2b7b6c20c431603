"""Errors of the front end, as a person reads them: place, source, caret, calls, hint."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from teeny_triton import CompilationError, KernelError, Ptr, f16, f32, i32

HEADER = """\
import teeny_triton.language as tl
from teeny_triton import Ptr, constexpr, f32, i32, kernel

"""

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Import a module of the given source, so that its lines are known. Line 4 is the first."""

    def run(source: str) -> ModuleType:
        path = tmp_path / "k.py"
        path.write_text(HEADER + textwrap.dedent(source))
        spec = importlib.util.spec_from_file_location("k", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return run


def failure(module: ModuleType, **parameters: Any) -> str:
    """What compiling the kernel `k` says, the folder cut off."""
    with pytest.raises(CompilationError) as caught:
        module.k.function(**parameters)
    folder = str(Path(module.__file__ or "").parent) + "/"
    return str(caught.value).replace(folder, "")


def test_caret_and_chain_of_calls(load: Load) -> None:
    module = load("""\
        @kernel
        def inner(x, y):
            return x + y.to(f32)

        @kernel
        def outer(x, y):
            return inner(x,
                         y)

        @kernel
        def k(x: Ptr[f32]):
            acc = tl.zeros((8,), f32)
            acc = outer(acc, y=x)
    """)
    assert failure(module) == textwrap.dedent("""\
        k.py:6:16: ptr<f32> cannot become f32: an address is no float
            return x + y.to(f32)
                       ^^^^^^^^^
        inlined at k.py:10:12:
            return inner(x,
                   ^^^^^^^^
        inlined at k.py:16:11:
            acc = outer(acc, y=x)
                  ^^^^^^^^^^^^^^^
        hint: convert it to tl.int64, or load what it points at""")


def test_shapes_that_do_not_broadcast(load: Load) -> None:
    module = load("""\
        @kernel
        def k(n: constexpr):
            a = tl.arange(0, n)
            b = (a + 1) * tl.arange(0, 5)
    """)
    assert failure(module, n=4) == textwrap.dedent("""\
        k.py:7:9: shapes [4] and [5] do not broadcast
            b = (a + 1) * tl.arange(0, 5)
                ^^^^^^^^^^^^^^^^^^^^^^^^^
        hint: align them with x[:, None], tl.expand_dims or tl.broadcast_to""")


def test_carried_type_changes(load: Load) -> None:
    module = load("""\
        @kernel
        def k(x: Ptr[f32], n: i32):
            acc = tl.zeros((8,), tl.float16)
            for i in range(n):
                if i > 2:
                    acc = acc * 2
                acc += tl.load(x + tl.arange(0, 8))
            tl.store(x, acc)
    """)
    assert failure(module) == textwrap.dedent("""\
        k.py:10:9: `acc` enters the loop as tile<8xf16>, but an iteration leaves tile<8xf32>
            acc += tl.load(x + tl.arange(0, 8))
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        it enters with the value given at k.py:6:5:
            acc = tl.zeros((8,), tl.float16)
            ^^^
        hint: keep its type with .to(...), or start from the type that it gets""")


def test_branches_of_different_types(load: Load) -> None:
    module = load("""\
        @kernel
        def k(x: Ptr[f32], n: i32):
            if n > 0:
                y = tl.load(x)
            else:
                y = n
            tl.store(x, y)
    """)
    assert failure(module) == textwrap.dedent("""\
        k.py:6:5: `y` is f32 on one path and i32 on the other
            if n > 0:
            ^^^^^^^^^
        it becomes f32 at k.py:7:9:
            y = tl.load(x)
            ^
        it becomes i32 at k.py:9:9:
            y = n
            ^
        hint: give both the same type with .to(...) or tl.broadcast_to(...)""")


def test_type_of_an_annotated_helper(load: Load) -> None:
    module = load("""\
        @kernel
        def helper(p: Ptr[f32], size: constexpr):
            return tl.load(p + tl.arange(0, size))

        @kernel
        def k(x, n: i32):
            tl.store(x, helper(x, n))
    """)
    assert failure(module, x=Ptr[f16]) == textwrap.dedent("""\
        k.py:10:17: argument `p` must be ptr<f32>, not ptr<f16>
            tl.store(x, helper(x, n))
                        ^^^^^^^^^^^^""")
    assert failure(module, x=Ptr[f32]) == textwrap.dedent("""\
        k.py:10:17: argument `size` must be a Python value, not i32
            tl.store(x, helper(x, n))
                        ^^^^^^^^^^^^
        hint: it is declared as constexpr""")


def test_columns_count_characters(load: Load) -> None:
    module = load("""\
        @kernel
        def k(x: Ptr[f32]):
            tl.store(x, "ééé" + missing)
    """)
    assert failure(module) == textwrap.dedent("""\
        k.py:6:25: `missing` is not defined
            tl.store(x, "ééé" + missing)
                                ^^^^^^^""")


def test_python_callables_fail_with_their_error(load: Load) -> None:
    module = load("""\
        def epilogue(tile):
            return tile.nonsense

        @kernel
        def k(x: Ptr[f32]):
            tl.store(x, epilogue(tl.load(x)))
    """)
    assert failure(module) == textwrap.dedent("""\
        k.py:9:17: AttributeError: 'Tile' object has no attribute 'nonsense'
            tl.store(x, epilogue(tl.load(x)))
                        ^^^^^^^^^^^^^^^^^^^^""")


BODIES = {
    "`y` has a value on one path only": """
        if n > 0:
            y = 1.0
        tl.store(x, y)""",
    "`y` is assigned inside the loop only": """
        for i in range(n):
            y = i
        tl.store(x, y)""",
    "`i` is the variable of a loop that has ended": """
        for i in range(n):
            tl.store(x, i)
        tl.store(x, i)""",
    "`acc` changes in the loop, but is no tile or number before it": """
        acc = None
        for i in range(n):
            acc = i if acc is None else acc + i""",
    "`y` is another Python object on each path": """
        y = "a"
        if n > 0:
            y = "b"
        tl.static_print(y)""",
    "a branch needs one truth value, not tile<4xbool>": """
        if tl.arange(0, 4) > n:
            tl.store(x, 1)""",
    "a run-time loop cannot be left by `break`": """
        for i in range(n):
            if 1 < 2:
                break""",
    "a run-time loop cannot be left by `return`": """
        for i in range(n):
            return""",
    "a loop cannot return under a run-time condition": """
        for i in range(n):
            if i > 2:
                return""",
    "a run-time branch cannot leave a loop": """
        for i in tl.static_range(4):
            if n > i:
                continue""",
    "a loop that steps by 0 never ends": """
        for i in range(0, n, 0):
            tl.store(x, i)""",
    "a run-time loop has no `else`": """
        for i in range(n):
            tl.store(x, i)
        else:
            tl.store(x, 1)""",
    "the loop runs more than 10000 times while the kernel is read": """
        while True:
            pass""",
    "static assertion failed: too small": """
        tl.static_assert(3 > 4, f"too {'small'}")""",
    "static_assert needs a condition that is known": """
        tl.static_assert(n > 4)""",
    "arange takes Python integers": """
        tl.arange(0, n)""",
    "static_range takes Python integers": """
        for i in tl.static_range(n):
            tl.store(x, i)""",
    "a shape is made of Python integers": """
        tl.zeros((n,), f32)""",
    "a kernel returns nothing": """
        return n""",
    "Try is not part of the kernel language": """
        try:
            tl.store(x, n)
        finally:
            pass""",
    "Set is not part of the kernel language": """
        {1, 2}""",
    "a kernel assigns to names only": """
        n.value = 3""",
    "tiles are immutable": """
        n[0] = 3""",
    "cannot unpack 3 values into 2 names": """
        a, b = 1, 2, 3""",
    "i32 cannot be unpacked": """
        a, b = n""",
    "i32 is known only when the kernel runs, so Python cannot count with it": """
        (1, 2, 3)[n]""",
    "Tile(i32) is not callable": """
        n(3)""",
    "expected a pointer, not i32": """
        tl.load(n)""",
    "`other` needs a `mask`": """
        tl.load(x, other=0.0)""",
    "only a block pointer knows its boundaries": """
        tl.load(x, boundary_check=(0,))""",
    "cannot compute ptr<f32> * i32": """
        x * n""",
    "ptr<f32> is an address, not a number": """
        tl.exp(x)""",
    "ZeroDivisionError": """
        1 // 0""",
    "calls nest deeper than 64": """
        def recurse(a):
            return recurse(a + 1)
        recurse(n)""",
    "not in this case": """
        if 1 < 2:
            raise ValueError("not in this case")""",
    "missing a required argument: 'b'": """
        def f(a, b):
            return a
        f(n)""",
    "fits no integer type": """
        n + 2**70""",
    "a block pointer starts from a scalar pointer, not i32": """
        tl.make_block_ptr(n, (4,), (1,), (0,), (4,), (0,))""",
    "a block pointer starts from a scalar pointer, not tile<4xptr<f32>>": """
        tl.make_block_ptr(x + tl.arange(0, 4), (4,), (1,), (0,), (4,), (0,))""",
    "shape, strides, offsets, block_shape and order have 2, 1, 2, 2 and 2 items": """
        tl.make_block_ptr(x, (4, 4), (1,), (0, 0), (4, 4), (1, 0))""",
    "a block has extents of at least 1, not [4, 0]": """
        tl.make_block_ptr(x, (4, 4), (4, 1), (0, 0), (4, 0), (1, 0))""",
    "order is a permutation of the 2 axes, not [1, 1]": """
        tl.make_block_ptr(x, (4, 4), (4, 1), (0, 0), (4, 4), (1, 1))""",
    "strides are integers, one for each axis, not f32": """
        tl.make_block_ptr(x, (4,), (n * 1.0,), (0,), (4,), (0,))""",
    "advance takes a block pointer, not": """
        tl.advance(x, (4,))""",
    "a block of 1 axes moves by as many, not 2": """
        tl.advance(tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,)), (1, 2))""",
    "a block pointer takes no mask": """
        tl.load(tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,)), mask=n > 0)""",
    "boundary_check lists axes of the block, not 'all'": """
        tl.load(tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,)), boundary_check="all")""",
    "boundary_check names an axis twice": """
        tl.load(tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,)), boundary_check=(0, -1))""",
    "axis 1 is outside a tile of 1 axes": """
        tl.load(tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,)), boundary_check=(1,))""",
    "padding_option is 'zero' or 'nan', not 'one'": """
        p = tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,))
        tl.load(p, boundary_check=(0,), padding_option="one")""",
    "i32 has no NaN to pad with": """
        p = x.to(tl.pointer_type(tl.int32))
        tl.make_tensor_descriptor(p, [4], [1], [4], padding_option="nan")""",
    "the last stride of a descriptor must be known to be 1": """
        tl.make_tensor_descriptor(x, [4, 4], [4, n], [4, 4])""",
    "rows are gathered by blocks of shape [1, columns], not [2, 4]": """
        desc = tl.make_tensor_descriptor(x, [4, 4], [4, 1], [2, 4])
        desc.gather(tl.arange(0, 4), 0)""",
    "rows are named by a tile of one axis, not i32": """
        tl.make_tensor_descriptor(x, [4, 4], [4, 1], [1, 4]).gather(n, 0)""",
    "shapes [4] and [8] do not broadcast": """
        p = tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,))
        tl.store(p, tl.zeros((8,), f32))""",
    "`p` is another kind of object after an iteration": """
        p = tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,))
        for i in range(n):
            tl.load(p)
            p = tl.make_block_ptr(x, (4,), (1,), (0,), (2,), (0,))""",
    "ptr<f32> cannot become f16: an address is no float": """
        x.to(tl.float16)""",
    "the assumption is false": """
        tl.assume(1 > 2)""",
    "With is not part of the kernel language": """
        with x:
            pass""",
    "`m` is not defined": """
        m = n
        del m
        tl.store(x, m)""",
    "inline assembly is written for one kind of machine": """
        tl.inline_asm_elementwise("add", "=r", [n], dtype=tl.int32, is_pure=True, pack=1)""",
    "'Tile' object has no attribute 'reshaped'": """
        n.reshaped(4)""",
}


@pytest.mark.parametrize("message", BODIES)
def test_messages(load: Load, message: str) -> None:
    body = textwrap.indent(textwrap.dedent(BODIES[message]).strip(), "    ")
    module = load(f"@kernel\ndef k(x: Ptr[f32], n: i32):\n{body}\n")
    text = failure(module)
    first, source, caret, *_ = text.split("\n")
    assert message in first
    assert first.startswith("k.py:")
    line, column = (int(part) for part in first.split(":")[1:3])
    written = Path(module.__file__ or "").read_text().split("\n")[line - 1]
    assert written.strip() == source.strip()
    assert written[column - 1 :].startswith(source[4 + caret[4:].index("^") :])


def test_kernels_need_a_file_and_a_def() -> None:
    namespace: dict[str, Any] = {}
    exec("from teeny_triton import kernel\n@kernel\ndef k(): pass", namespace)
    with pytest.raises(KernelError, match="the source of k is not available"):
        namespace["k"].function()


def test_unknown_annotation(load: Load) -> None:
    module = load("""\
        @kernel
        def k(x: "Ptr[f33]"):
            pass
    """)
    with pytest.raises(KernelError, match=r"cannot read the annotation `Ptr\[f33\]` of `x`"):
        module.k.function(x=Ptr[f32])


def test_messages_of_the_call(load: Load) -> None:
    module = load("""\
        @kernel
        def k(x: Ptr[f32], pair: tuple[f32, i32]):
            pass
    """)
    with pytest.raises(KernelError, match="`pair` is a tuple, so it needs a sequence"):
        module.k.function(pair=f32)
    with pytest.raises(KernelError, match="`pair` has 2 items, not 1"):
        module.k.function(pair=(f32,))
    with pytest.raises(KernelError, match="`pair_1` must be i32, not f32"):
        module.k.function(pair=(f32, f32))
    assert len(module.k.function(pair=(f32, i32)).parameters) == 3
