import sys

import numpy as np
import pytest
import teeny_cpu
from teeny_bench import peers
from teeny_bench.peers import PeerError
from teeny_bench.programs import pair


def test_an_unknown_peer_is_refused() -> None:
    with pytest.raises(PeerError, match="no peer is called 'jax'\nhint: one of torch, inductor"):
        peers.prepare("jax", 1)


def test_without_torch_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(PeerError, match="not installed\nhint: scripts/install-torch"):
        peers.prepare("torch", 1)


def test_both_sides_get_the_same_threads() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    try:
        peers.prepare("torch", 2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_without_a_compiler_inductor_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")

    def refuse(*arguments: object, **options: object) -> object:
        raise RuntimeError("No working C++ compiler found\nand more")

    monkeypatch.setattr(torch, "compile", lambda function, **options: refuse)
    with pytest.raises(PeerError) as caught:
        peers.prepare("inductor", torch.get_num_threads())
    assert caught.value.message == (
        "the peer 'inductor' does not work here: No working C++ compiler found"
    )
    assert "C++ compiler" in str(caught.value.hint)


def test_inductor_is_asked_for_the_shapes_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    asked = {}
    monkeypatch.setattr(torch, "compile", lambda function, **options: asked.update(options))
    peers.compiled("inductor", lambda x: x)
    assert asked == {"fullgraph": True, "dynamic": False}
    peers.compiled("inductor", lambda x: x, whole=False)
    assert asked == {"fullgraph": False, "dynamic": False}
    peers.compiled("inductor", lambda x: x, constant=True)
    assert asked["options"] == {"freezing": True}


def test_the_serial_peer_is_the_same_program_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # not needed
    before = teeny_cpu.num_threads()
    try:
        teeny_cpu.set_num_threads(2)
        peers.prepare("serial", 2)
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        sides = pair("serial", lambda a: a * 2, lambda a: a, [x])
        np.testing.assert_array_equal(sides.peer(), x * 2)
        assert teeny_cpu.num_threads() == 1
        np.testing.assert_array_equal(sides.ours(), x * 2)
        assert teeny_cpu.num_threads() == 2
    finally:
        teeny_cpu.set_num_threads(before)


def test_rows_of_models_have_no_serial_peer() -> None:
    with pytest.raises(PeerError, match="no peer 'serial'"):
        peers.compiled("serial", lambda x: x)
