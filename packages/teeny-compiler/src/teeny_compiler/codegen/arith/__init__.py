"""Arithmetic on LLVM operands: integers, IEEE floats and narrow floats, the same on any target."""
