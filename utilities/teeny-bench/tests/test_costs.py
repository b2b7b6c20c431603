import os
from pathlib import Path

import pytest
from teeny_bench.costs import CACHES, cold_caches, peer_peak


def test_caches_are_empty_folders_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHES[0], "/mine")
    monkeypatch.delenv(CACHES[1], raising=False)
    with cold_caches():
        folders = [Path(os.environ[name]) for name in CACHES]
        assert len(set(folders)) == 2
        assert not any(folder.exists() for folder in folders)
        root = folders[0].parent
        assert root.is_dir()
    assert not root.exists()
    assert os.environ[CACHES[0]] == "/mine"
    assert CACHES[1] not in os.environ


def test_the_peak_counts_what_is_held_at_a_time() -> None:
    torch = pytest.importorskip("torch")

    def call() -> float:
        x = torch.ones(1000)  # 4000 bytes
        y = x + 1  # 4000 more
        del x
        z = y + 1  # in the place of x
        return float(z[0])

    assert 8_000 <= peer_peak(call) < 8_200
