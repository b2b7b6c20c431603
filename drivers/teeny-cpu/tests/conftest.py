"""Fixtures: a compile cache of the test session, and memory that ends at an unmapped page."""

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

PAGE = mmap.PAGESIZE


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEENY_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


class Guarded:
    """Makes arrays whose last byte lies before a page that faults when it is touched."""

    def __init__(self) -> None:
        self._blocks: list[mmap.mmap] = []
        self._protect = ctypes.CDLL(None, use_errno=True).mprotect
        self._protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        size = int(np.prod(shape)) * dtype.itemsize
        pages = -(-size // PAGE)
        block = mmap.mmap(-1, (pages + 1) * PAGE)
        self._blocks.append(block)
        end = pages * PAGE
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        assert self._protect(address + end, PAGE, 0) == 0
        start = end - size
        if dtype == np.uint8:  # scratch memory, which must begin at a cache line
            start -= start % 64
        array = np.ndarray(shape, dtype, block, start)
        array.view(np.uint8).fill(0xA5) if array.ndim and array.size else None
        return array

    def copy(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        made = self.empty(array.shape, array.dtype)
        made[...] = array
        return made


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()
