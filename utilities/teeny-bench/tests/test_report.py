import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from rich.console import Console
from teeny_bench.costs import Costs
from teeny_bench.measure import Timing
from teeny_bench.plot import require_svg, to_svg
from teeny_bench.report import Row, make_row, seconds_text, table, to_json
from teeny_core import ConfigError

# What readers of the files rely on.
FIELDS = {
    *("suite", "name", "threads", "note", "peer"),
    *("ours_best_s", "ours_median_s", "peer_best_s", "peer_median_s"),
    *("ratio_best", "ratio_median"),
    *("ours_compile_s", "peer_compile_s", "ours_peak_bytes", "peer_peak_bytes"),
}


def row(name: str = "NN 256", best: float = 2e-3, suite: str = "gemm") -> Row:
    return make_row(suite, name, 2, Timing(1e-3, 2e-3), "torch", Timing(best, 6e-3), "93 % FMA")


def test_ratios_are_the_peers_time_over_ours() -> None:
    assert row().ratio_best == pytest.approx(2.0)
    assert row().ratio_median == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-5, "45.6 µs"), (7.89e-8, "78.9 ns")],
)
def test_durations_have_a_fitting_unit(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_json_is_a_list_of_rows() -> None:
    (parsed,) = json.loads(to_json([row()]))
    assert parsed.keys() == FIELDS
    assert (parsed["suite"], parsed["name"], parsed["threads"]) == ("gemm", "NN 256", 2)
    assert parsed["ratio_best"] == pytest.approx(2.0)


def test_the_table_fits_a_narrow_terminal() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(table([row("mobilenet 1x1 320→1280@7", suite="conv"), row(best=5e-4)]))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    assert lines[0] == "teeny against torch, 2 threads"
    assert lines[-4:] == [
        "conv",
        "mobilenet 1x1 320→1280@7 1 ms 2 ms 2.00 3.00 93 % FMA",
        "gemm",
        "NN 256 1 ms 500 µs 0.50 3.00 93 % FMA",
    ]


def test_costs_stand_in_columns_of_their_own() -> None:
    times = Timing(1e-3, 2e-3), "torch", Timing(4e-3, 8e-3)
    costs = Costs(0.5, 12_345_678), Costs(None, 2_000)
    rows = [
        make_row("models", "MLP", 1, *times, "", costs),
        make_row("models", "LSTM", 1, Timing(1e-3, 2e-3), "torch", Timing(1e-3, 2e-3), ""),
    ]
    console = Console(file=io.StringIO(), width=80)
    console.print(table(rows))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    assert lines[1] == "case ours peer ratio median compile memory"
    assert lines[-3:] == [
        "MLP 1 ms 4 ms 4.00 4.00 500 / - ms 12.3 / 0.002 MB",
        "LSTM 1 ms 1 ms 1.00 1.00",
        "geometric mean 2.00 2.00",
    ]


def test_the_plot_is_an_svg_and_always_the_same() -> None:
    rows = [row(), row("NT 256", 5e-4), row("train epoch", 9e-3, "mnist")]
    picture = to_svg(rows)
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert picture == to_svg(rows)


def test_the_plot_has_the_name_of_an_svg() -> None:
    require_svg(Path("rows.SVG"))
    with pytest.raises(ConfigError, match=r"rows\.png is not"):
        require_svg(Path("rows.png"))
