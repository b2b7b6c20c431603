"""Templates: what the compiler asks for launches. `TEMPLATES` lists them all."""

from collections.abc import Sequence

from teeny_triton.launch import Template

from teeny_kernels.templates.attention import TEMPLATE as ATTENTION
from teeny_kernels.templates.conv import CONV, CONV_POOL
from teeny_kernels.templates.conv_grad_weight import TEMPLATE as CONV_GRAD_WEIGHT
from teeny_kernels.templates.matmul import TEMPLATE as MATMUL
from teeny_kernels.templates.matmul_integer import TEMPLATE as MATMUL_INTEGER
from teeny_kernels.templates.pool import TEMPLATE as POOL

TEMPLATES: Sequence[Template] = (
    MATMUL,
    MATMUL_INTEGER,
    CONV,
    CONV_POOL,
    CONV_GRAD_WEIGHT,
    POOL,
    ATTENTION,
)
