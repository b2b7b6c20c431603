"""Expansion: ops on whole tiles become loops of primitive ones over scratch memory.

`reduce_by`, `scan`, `sort`, `gather`, `flip`, `histogram` and batches of `dot` are rewritten, tile
IR to tile IR, so that a back end needs to know nothing of them. Each puts its tiles into scratch
memory by one store, works there in a loop whose tiles fit registers, and loads the result.
"""

from teeny_triton.expand.rewrite import EXPANDED as EXPANDED
from teeny_triton.expand.rewrite import expand as expand
