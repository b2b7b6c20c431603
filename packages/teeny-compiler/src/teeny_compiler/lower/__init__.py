"""Lowering: nests and template ops to kernels in tile IR."""
