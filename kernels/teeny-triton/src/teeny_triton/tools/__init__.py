"""What kernel authors import from `triton.tools`."""

from teeny_triton.tools.tensor_descriptor import TensorDescriptor as TensorDescriptor
