"""`python -m teeny_triton script.py`: run a script in which `triton` is teeny_triton."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from teeny_triton.compatibility import compatible

USAGE = """usage: python -m teeny_triton SCRIPT [ARGUMENT...]

Run a script in which `import triton` gives teeny_triton, so that kernels written for Triton
run on the CPU."""


def main(arguments: list[str]) -> int:
    """Run the script in `arguments`, with the rest of them as its own."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    script = arguments[0]
    if not Path(script).is_file():
        print(f"error: there is no file {script}\nhint: {USAGE.splitlines()[0]}", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path[0] = str(Path(script).resolve().parent)
    with compatible():
        runpy.run_path(script, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
