"""Benchmarks of teeny against its peers."""
