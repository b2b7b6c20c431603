"""The graph and kernel compiler of teeny: e-graph optimiser, scheduler and LLVM back end."""
