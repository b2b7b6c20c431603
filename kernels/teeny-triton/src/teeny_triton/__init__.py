"""The typed, Triton-like kernel language of teeny: tile IR, front end and interpreter."""
