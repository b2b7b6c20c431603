import pytest
from teeny_triton import Target


def machine(bits: int, registers: int, *features: str) -> Target:
    return Target("x86_64-unknown-linux-gnu", "", frozenset(features), bits, registers)


TARGETS = {"sse": machine(128, 16, "sse2"), "avx512": machine(512, 32, "avx512f")}


@pytest.fixture(params=TARGETS, scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    """Machines with 4 and 16 lanes of f32; kernels are interpreted."""
    return TARGETS[request.param]


@pytest.fixture(scope="session")
def scalar() -> Target:
    """A machine without vectors."""
    return machine(0, 16)


@pytest.fixture(scope="session")
def narrow() -> Target:
    """A machine with 4 lanes of f32."""
    return TARGETS["sse"]


@pytest.fixture(scope="session")
def wide() -> Target:
    """A machine with 16 lanes of f32."""
    return TARGETS["avx512"]
