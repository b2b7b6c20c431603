"""Kernels to learn from, of the kinds that Triton's tutorials teach, each with its launch.

They take and return NumPy arrays in row-major order. Sizes are small enough to read and fast enough
to use; what the compiler itself launches is in `teeny_kernels.kernels`.
"""

from teeny_kernels.examples.attention import attention as attention
from teeny_kernels.examples.attention import attention_backward as attention_backward
from teeny_kernels.examples.elements import add as add
from teeny_kernels.examples.elements import dropout as dropout
from teeny_kernels.examples.products import grouped_matmul as grouped_matmul
from teeny_kernels.examples.products import matmul as matmul
from teeny_kernels.examples.products import persistent_matmul as persistent_matmul
from teeny_kernels.examples.products import scaled_matmul as scaled_matmul
from teeny_kernels.examples.rows import layer_norm as layer_norm
from teeny_kernels.examples.rows import layer_norm_backward as layer_norm_backward
from teeny_kernels.examples.rows import softmax as softmax
