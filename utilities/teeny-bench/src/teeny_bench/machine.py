"""How far a run is from the limits of this machine."""

from __future__ import annotations

from teeny_cpu import copy_bandwidth, fma_peak


def share_of_limit(flops: float, bytes_moved: float, seconds: float, threads: int) -> str:
    """Say how far a run of `seconds` is from the nearer physical limit; empty where none counts."""
    shares: dict[str, float] = {}
    if flops:
        shares["FMA"] = flops / fma_peak(threads) / seconds
    if bytes_moved:
        shares["copy"] = bytes_moved / copy_bandwidth(int(bytes_moved), threads) / seconds
    if not shares:
        return ""
    limit = max(shares, key=shares.__getitem__)
    return f"{100 * shares[limit]:.0f} % {limit}"
