"""Code generation: tile IR to LLVM IR, and LLVM IR to machine code."""
