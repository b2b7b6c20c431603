"""Kernel templates of teeny, written in its kernel language."""
