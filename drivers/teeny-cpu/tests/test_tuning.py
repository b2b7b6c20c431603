"""Choosing among the algorithms of a library by measurement."""

import json

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import ConfigError, SymTensor, config, nn
from teeny_cpu import tuning


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TEENY_CACHE_DIR", str(tmp_path))


def graph(images=1):
    tn.manual_seed(3)
    return tn.trace(nn.Conv2d(16, 32, 3, padding=1), SymTensor.input(tn.f32, (images, 16, 20, 20)))


def image():
    return np.random.default_rng(0).standard_normal((1, 16, 20, 20), dtype=np.float32)


def records():
    folder = config.get().cache_dir / "tune"
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def test_the_choice_is_measured_once_and_kept(monkeypatch, capsys):
    monkeypatch.setenv("TEENY_TUNE", "1")
    monkeypatch.setenv("TEENY_PRINT_AUTOTUNING", "1")
    tuned = tn.compile(graph())
    (record,) = records()
    assert record["op"] == "conv2d"
    assert len(record["us"]) > 1
    assert min(record["us"]) > 0
    assert "tuning conv2d (1, 32, 20, 20): way" in capsys.readouterr().out
    monkeypatch.setattr(tuning, "_measure", None)  # not asked again
    assert tn.compile(graph(), options={"fast": "on"}) is not None
    expected = tn.compile(graph(), options={"tune": "off"})(image())
    np.testing.assert_allclose(tuned(image()), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fastest", [0, 1])
def test_every_way_computes_the_same(monkeypatch, fastest):
    seen = []

    def pretend(request, plans):
        seen.append(plans)
        return [1.0 + (i != fastest) for i in range(len(plans))]

    monkeypatch.setattr(tuning, "_measure", pretend)
    tuned = tn.compile(graph(), options={"tune": "on"})
    (plans,) = seen
    assert len(plans) > fastest
    expected = tn.compile(graph(), "ndarray")(image())
    np.testing.assert_allclose(tuned(image()), expected, rtol=1e-4, atol=1e-5)
    assert records()[0]["best"] == fastest


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows", [3, 40, 150])
def test_every_tiling_of_a_product_computes_the_same(monkeypatch, rows, transposed):
    random = np.random.default_rng(1)
    a = random.standard_normal((rows, 300), dtype=np.float32)
    b = random.standard_normal((300, 270), dtype=np.float32)
    x = SymTensor.input(tn.f32, a.shape)
    y = SymTensor.input(tn.f32, b.T.shape if transposed else b.shape)
    product = tn.trace(lambda x, y: x @ (y.mT if transposed else y), x, y)
    counts = []
    for place in range(5):

        def pretend(request, plans, place=place):
            counts.append(len(plans))
            return [float(i != place) for i in range(len(plans))]

        monkeypatch.setattr(tuning, "_measure", pretend)
        monkeypatch.setattr(tuning.choices, "read", lambda folder, name: None)
        monkeypatch.setenv("TEENY_CACHE_DIR", f"{config.get().cache_dir}/{place}")
        tuned = tn.compile(product, options={"tune": "on"})
        got = tuned(a, np.ascontiguousarray(b.T) if transposed else b)
        np.testing.assert_allclose(got, a.astype(float) @ b, rtol=1e-4, atol=1e-3)
    assert rows < 100 or counts[0] > 1


def test_a_close_race_keeps_the_default(monkeypatch):
    monkeypatch.setattr(tuning, "_measure", lambda request, plans: [1.0, 0.99, 0.98][: len(plans)])
    tn.compile(graph(), options={"tune": "on"})
    assert records()[0]["best"] == 0


def test_symbolic_sizes_are_not_measured(monkeypatch):
    monkeypatch.setattr(tuning, "_measure", None)
    tn.compile(graph("n"), options={"tune": "on"})
    assert records() == []


def test_a_damaged_record_is_measured_again(monkeypatch):
    monkeypatch.setattr(tuning, "_measure", lambda request, plans: [1.0, 0.5, 2.0][: len(plans)])
    tn.compile(graph(), options={"tune": "on"})
    (path,) = (config.get().cache_dir / "tune").glob("*.json")
    path.write_text('{"best": 77}')
    tn.compile(graph(), options={"tune": "on", "fast": "on"})
    assert records()[0]["best"] == 1


def test_the_option_is_checked():
    with pytest.raises(ConfigError, match="tune=maybe") as error:
        tn.compile(graph(), options={"tune": "maybe"})
    assert "tune=on|off" in (error.value.hint or "")
