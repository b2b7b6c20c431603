"""Nests: fused groups of a graph's ops as work over one iteration space, read through views."""
