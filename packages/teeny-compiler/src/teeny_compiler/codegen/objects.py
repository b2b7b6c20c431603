"""Object code of the modules of a program, which are compiled while the program is still made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from teeny_triton.target import Target

from teeny_compiler.cache import compiler_key, default_cache, digest
from teeny_compiler.codegen.workers import WORKERS, Compilation


class Objects:
    """Object code of modules: found in the cache, which programs share, or made by workers."""

    def __init__(self, target: Target, compilation: Compilation) -> None:
        self._target = target
        self._compilation = compilation
        self._cache = default_cache()
        self._keys: dict[str, str] = {}
        self._found: dict[str, bytes] = {}

    def want(self, name: str, text: str) -> None:
        """Have the object code of a module ready soon."""
        if name in self._keys:
            return
        self._keys[name] = digest("module", compiler_key(), self._target.key, text)
        found = self._cache.get(self._keys[name])
        if found is None:
            self._compilation.add(name, text)
        else:
            self._found[name] = found

    def all_of(self, texts: Mapping[str, str]) -> list[bytes]:
        """Return the object code of modules, given as LLVM IR by name.

        Raises:
            CompileError: naming the module that LLVM refuses, or dies of.
        """
        for name, text in texts.items():
            self.want(name, text)
        made = self._compilation.result()
        for name, code in made.items():
            self._cache.put(self._keys[name], code)
        return [made[name] if name in made else self._found[name] for name in texts]


@contextmanager
def compiling(target: Target) -> Iterator[Objects]:
    """Compile for a machine while the body asks for more; no process is taken before it does."""
    with WORKERS.compilation(target) as compilation:
        yield Objects(target, compilation)
