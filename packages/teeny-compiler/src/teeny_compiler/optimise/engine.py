"""The e-graph engine: egglog with the header, the rules and the loader, one for each policy.

egglog is imported where a graph is optimised and nowhere else.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from teeny_core import bool_, f32, f64, i32, i64, ops, u32, u64

from teeny_compiler.optimise.encode import DTYPES, NUMBER, Facts, Vector, lossless_casts
from teeny_compiler.optimise.native import bindings
from teeny_compiler.optimise.rule import Fact, Rule, rulesets

CONSTRUCTORS = """
(sort Vector (Vec i64))
(datatype T
  (In i64) (K i64 i64) (Un String T) (Bin String T T) (Sel T T T) (Cast i64 T)
  (Tr T Vector) (Rs T Vector) (Bc T Vector) (Mm i64 i64 T T) (Conv i64 T T)
  (Att i64 i64 T T T T)
  (Op0 i64) (Op1 i64 T) (Op2 i64 T T) (Cons T T) (Nil))
(constructor N (i64) T :unextractable)
(function vector (i64) Vector :no-merge)
; A class with two signatures is a wrong rule: egglog raises, and the graph stays as it was.
(function sig (T) Vector :no-merge)
(relation frozen (T))
(relation neutral (String T))
(relation inverse (T T))
(relation integer_null (T))
(relation null (T))
(relation hides (T))
(relation nearly_hides (T))
(relation quotient (T i64))
(relation folds (i64 String i64))
(relation counts (i64 String))
(relation times (i64 i64 i64))
(relation holds_indices (i64))
(relation line (T))
(relation rows (T))
(relation columns (T))
(relation causal (T))
(relation above (T))
(relation hides_above (T))
(relation both (T T T))
(relation either (T T T))
(relation weights (T T))
(relation scores (T T i64 i64 T))
(relation product (T T T i64))
(relation repeats (T T i64))
(relation mixes (T))
(relation accumulates (i64))
(relation involution (String))
(relation idempotent (String))
(relation commutes (String))
(relation makes_bool (String))
(relation keeps_type (String))
(relation floating (i64))
(relation widens (i64 i64))
(ruleset load)
(ruleset analyse)
"""

# relation of rows -> (columns, what a row says); `i` is the first column, `a` to `f` the others.
LOADERS: dict[str, tuple[str, str]] = {
    "in": ("i64", "(union (N i) (In i))"),
    "k": ("i64 i64 i64", "(union (N i) (K a b))"),
    "un": ("i64 String i64", "(union (N i) (Un a (N b)))"),
    "bin": ("i64 String i64 i64", "(union (N i) (Bin a (N b) (N c)))"),
    "sel": ("i64 i64 i64 i64", "(union (N i) (Sel (N a) (N b) (N c)))"),
    "cast": ("i64 i64 i64", "(union (N i) (Cast a (N b)))"),
    "tr": ("i64 i64 i64", "(union (N i) (Tr (N a) (vector b)))"),
    "rs": ("i64 i64 i64", "(union (N i) (Rs (N a) (vector b)))"),
    "bc": ("i64 i64 i64", "(union (N i) (Bc (N a) (vector b)))"),
    "mm": ("i64 i64 i64 i64 i64", "(union (N i) (Mm a b (N c) (N d)))"),
    "conv": ("i64 i64 i64 i64", "(union (N i) (Conv a (N b) (N c)))"),
    "att": (
        "i64 i64 i64 i64 i64 i64 i64",
        "(union (N i) (Att a b (N c) (N d) (N e) (N f)))",
    ),
    "op0": ("i64 i64", "(union (N i) (Op0 a))"),
    "op1": ("i64 i64 i64", "(union (N i) (Op1 a (N b)))"),
    "op2": ("i64 i64 i64 i64", "(union (N i) (Op2 a (N b) (N c)))"),
    "cons": ("i64 i64 i64", "(union (N i) (Cons (N a) (N b)))"),
    "nil": ("i64", "(union (N i) (Nil))"),
    "sig": ("i64 i64", "(set (sig (N i)) (vector a))"),
    "frozen": ("i64", "(frozen (N i))"),
    "neutral": ("String i64", "(neutral i (N a))"),
    "inverse": ("i64 i64 i64", "(inverse (N i) (K a b))"),
    "integer_null": ("i64", "(integer_null (N i))"),
    "null": ("i64", "(null (N i))"),
    "hides": ("i64", "(hides (N i))"),
    "nearly_hides": ("i64", "(nearly_hides (N i))"),
    "quotient": ("i64 i64", "(quotient (N i) a)"),
    "folds": ("i64 String i64", "(folds i a b)"),
    "counts": ("i64 String", "(counts i a)"),
    "times": ("i64 i64 i64", "(times i a b)"),
    "causal": ("i64", "(causal (N i))"),
    "above": ("i64", "(above (N i))"),
    "hides_above": ("i64", "(hides_above (N i))"),
}

if TYPE_CHECKING:
    from egglog.bindings import EGraph

RECOGNISE = "recognise_real"
"""The rule set of what builds on facts."""

MATRIX_RANKS = (2, 3, 4, 5)


def header() -> str:
    """Return the sorts, relations, analyses and loaders."""
    return "\n".join((CONSTRUCTORS, *_loaders(), *_tables(), *_analyses()))


def _loaders() -> Iterator[str]:
    for name, (columns, action) in LOADERS.items():
        variables = "iabcdef"[: len(columns.split())]
        yield f"(relation r_{name} ({columns}))"
        row = f"(r_{name} {' '.join(variables)})"
        vectors = [v for v in variables if f"(vector {v})" in action]
        facts = " ".join((row, *(f"(= v_{v} (vector {v}))" for v in vectors)))
        for v in vectors:
            action = action.replace(f"(vector {v})", f"v_{v}")
        yield f"(rule ({facts}) ({action}) :ruleset load)"


def _tables() -> Iterator[str]:
    traits = {"involution": "involution", "idempotent": "idempotent", "commutative": "commutes"}
    for definition in ops.all_ops():
        if "elementwise" not in definition.traits or definition.attributes:
            continue
        yield from (
            f'({relation} "{definition.name}")'
            for trait, relation in traits.items()
            if trait in definition.traits
        )
        result = "makes_bool" if _makes_bool(definition.name) else "keeps_type"
        yield f'({result} "{definition.name}")'
    yield from (f"(floating {NUMBER[dtype]})" for dtype in DTYPES if dtype.is_float)
    yield from (f"(holds_indices {NUMBER[dtype]})" for dtype in (i32, i64, u32, u64, f64))
    yield from (f"(accumulates {NUMBER[dtype]})" for dtype in (f32, f64))
    yield from (f"(widens {a} {b})" for a, b in lossless_casts())


def _makes_bool(name: str) -> bool:
    return "comparison" in ops.get(name).traits or name in ("isnan", "isinf", "logical_not")


def _analyses() -> Iterator[str]:
    def derive(*facts: str, then: str) -> str:
        return f"(rule ({' '.join(facts)}) ({then}) :ruleset analyse)"

    x, boolean = "(= s (sig x))", NUMBER[bool_]
    for term in ("(Un o x)", "(Bin o x y)"):
        e = f"(= e {term})"
        yield derive(e, x, "(keeps_type o)", then="(set (sig e) s)")
        yield derive(e, x, "(makes_bool o)", then=f"(set (sig e) (vec-set s 0 {boolean}))")
    yield derive("(= e (Sel c x y))", x, then="(set (sig e) s)")
    yield derive("(= e (Cast d x))", x, then="(set (sig e) (vec-set s 0 d))")
    yield derive("(= e (Rs x t))", then="(set (sig e) t)")
    yield derive("(= e (Bc x t))", then="(set (sig e) t)")
    yield derive("(= e (K d b))", then="(set (sig e) (vec-of d)) (frozen e)")
    for rank in MATRIX_RANKS:
        moved = " ".join(f"(vec-get s (+ 1 (vec-get p {i})))" for i in range(rank))
        yield derive(
            "(= e (Tr x p))", f"(= (vec-length p) {rank})", x,
            then=f"(set (sig e) (vec-of (vec-get s 0) {moved}))",
        )  # fmt: skip
        leading = " ".join(f"(vec-get s {i})" for i in range(rank))
        yield derive(
            "(= e (Att b c x y z m))", x, f"(= (vec-length s) {rank + 1})", "(= t (sig z))",
            then=f"(set (sig e) (vec-of {leading} (vec-get t {rank})))",
        )  # fmt: skip
        for f in (0, 1):
            for g in (0, 1):
                batch = " ".join(f"(vec-get s {i})" for i in range(rank - 1))
                row, column = rank - 1 + f, rank - g
                yield derive(
                    f"(= e (Mm {f} {g} x y))", x, f"(= (vec-length s) {rank + 1})",
                    "(= t (sig y))",
                    then=f"(set (sig e) (vec-of {batch} (vec-get s {row}) (vec-get t {column})))",
                )  # fmt: skip
    for term in ("(Un o x)", "(Cast o x)", "(Tr x o)", "(Rs x o)", "(Bc x o)", "(Op1 o x)"):
        yield derive(f"(= e {term})", "(frozen x)", then="(frozen e)")
    for term in ("(Bin o x y)", "(Mm o p x y)", "(Conv o x y)", "(Op2 o x y)", "(Cons x y)"):
        yield derive(f"(= e {term})", "(frozen x)", "(frozen y)", then="(frozen e)")
    yield derive("(= e (Sel c x y))", "(frozen c)", "(frozen x)", "(frozen y)", then="(frozen e)")
    yield derive(
        "(= e (Att b c x y z m))", "(frozen x)", "(frozen y)", "(frozen z)", "(frozen m)",
        then="(frozen e)",
    )  # fmt: skip
    yield derive("(= e (Nil))", then="(frozen e)")
    for term in ("(Bc k t)", "(Rs k t)", "(Tr k t)"):
        e = f"(= e {term})"
        yield derive(e, "(neutral o k)", then="(neutral o e)")
        for relation in ("integer_null", "null", "hides", "nearly_hides"):
            yield derive(e, f"({relation} k)", then=f"({relation} e)")
    yield derive("(= e (Bc k t))", "(inverse k r)", then="(inverse e (Bc r t))")


@dataclass(frozen=True)
class Enode:
    """A term of the e-graph: a constructor over classes `inputs`, with plain attributes."""

    cls: int
    op: str
    inputs: tuple[int, ...]
    attrs: tuple[int | str | Vector, ...]


@dataclass(frozen=True)
class Snapshot:
    """All e-nodes, and of each class its signature and whether it is frozen.

    `classes` maps the nodes of the graph to their classes; `fired` counts matches by rule;
    `mixes` are the classes of products with a softmax.
    """

    nodes: tuple[Enode, ...]
    signatures: dict[int, Vector]
    frozen: frozenset[int]
    classes: dict[int, int]
    fired: dict[str, int]
    mixes: frozenset[int] = frozenset()


class Engine:
    """egglog loaded with some rules; each graph is pushed, run, read out and popped.

    One graph at a time: `loaded` waits for other threads.
    """

    def __init__(self, rules: Sequence[Rule], facts: Sequence[Fact] = ()) -> None:
        self._lock = threading.Lock()
        self._folder = Path(tempfile.mkdtemp(prefix="teeny-egraph-"))
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        self._egraph: EGraph = bindings().EGraph(fact_directory=str(self._folder))
        self.rulesets = rulesets(rules)
        self._names = {f"{rule.algebra} #{i}": rule for i, rule in enumerate(rules)}
        self._run(header())
        self._run("\n".join(f"(ruleset {name})" for name in self.rulesets))
        self._run("\n".join(rule.text(i) for i, rule in enumerate(rules)))
        if RECOGNISE in self.rulesets:
            self._run("\n".join(fact.text(RECOGNISE) for fact in facts))

    def _run(self, program: str) -> list[Any]:
        return list(self._egraph.run_program(*self._egraph.parse_program(program)))

    @contextmanager
    def loaded(self, facts: Facts) -> Iterator[None]:
        """Hold the facts of a graph while the body runs."""
        with self._lock:
            self._run("(push)")
            try:
                self._fired: dict[str, int] = {}
                self._load(facts)
                yield
            finally:
                self._run("(pop)")

    def _load(self, facts: Facts) -> None:
        lines = [
            f"(set (vector {number}) (vec-of {' '.join(map(str, vector))}))"
            if vector
            else f"(set (vector {number}) (vec-empty))"
            for number, vector in enumerate(facts.vectors.values)
        ]
        for name, rows in facts.rows.items():
            text = "\n".join("\t".join(map(str, row)) for row in rows)
            (self._folder / f"{name}.tsv").write_text(text + "\n")
            lines.append(f'(input r_{name} "{name}.tsv")')
        self._run("\n".join((*lines, "(run-schedule (saturate (run load)))")))

    def step(self, *names: str) -> bool:
        """Run rule sets once, one after the other; return whether anything changed."""
        runs = " ".join(f"(run {name})" for name in names)
        (output,) = self._run(f"(run-schedule (seq {runs}))")
        for rule, count in output.report.num_matches_per_rule.items():
            if rule in self._names and count:
                self._fired[rule] = self._fired.get(rule, 0) + count
        return bool(output.report.updated)

    def size(self) -> int:
        """Return the number of e-nodes."""
        (output,) = self._run("(print-size)")
        return sum(count for name, count in output.sizes if name in EXTRACTABLE)

    def snapshot(self) -> Snapshot:
        """Read the e-graph out."""
        return _Reader(self._egraph).snapshot(self._fired)


EXTRACTABLE = frozenset(
    ("In", "K", "Un", "Bin", "Sel", "Cast", "Tr", "Rs", "Bc", "Mm", "Conv", "Att", "Cons", "Nil")
) | {"Op0", "Op1", "Op2"}


class _Reader:
    """Numbers the classes of a frozen e-graph and reads its tables."""

    def __init__(self, egraph: EGraph) -> None:
        self.egraph = egraph
        self.tables = egraph.freeze().functions
        self.numbers: dict[Any, int] = {}
        self.plain: dict[tuple[str, Any], int | str | Vector] = {}

    def cls(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def attribute(self, sort: str, value: Any) -> int | str | Vector:
        key = (sort, value)
        if key not in self.plain:
            self.plain[key] = self._read(sort, value)
        return self.plain[key]

    def _read(self, sort: str, value: Any) -> int | str | Vector:
        if sort == "i64":
            return int(self.egraph.value_to_i64(value))
        if sort == "String":
            return str(self.egraph.value_to_string(value))
        return tuple(map(self.egraph.value_to_i64, self.egraph.value_to_vec(value)))

    def snapshot(self, fired: dict[str, int]) -> Snapshot:
        nodes = [
            self._enode(name, table.input_sorts, row)
            for name, table in self.tables.items()
            if name in EXTRACTABLE
            for row in table.rows
        ]
        signatures: dict[int, Vector] = {}
        for row in self.tables["sig"].rows:
            found = self.attribute("Vector", row.output)
            assert isinstance(found, tuple)
            signatures[self.cls(row.inputs[0])] = found
        frozen = frozenset(self.cls(row.inputs[0]) for row in self.tables["frozen"].rows)
        classes = {}
        for row in self.tables["N"].rows:
            number = self.attribute("i64", row.inputs[0])
            assert isinstance(number, int)
            classes[number] = self.cls(row.output)
        mixes = frozenset(self.cls(row.inputs[0]) for row in self.tables["mixes"].rows)
        return Snapshot(tuple(nodes), signatures, frozen, classes, dict(fired), mixes)

    def _enode(self, name: str, sorts: Sequence[str], row: Any) -> Enode:
        inputs, attrs = [], []
        for sort, value in zip(sorts, row.inputs, strict=True):
            if sort == "T":
                inputs.append(self.cls(value))
            else:
                attrs.append(self.attribute(sort, value))
        return Enode(self.cls(row.output), name, tuple(inputs), tuple(attrs))
