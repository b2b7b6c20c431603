"""Tensors, graphs, autodiff, layers and optimisers of teeny."""
