import pytest
from teeny_bench import peers
from teeny_bench.case import Case, check
from teeny_bench.suites import SUITES, TRAINING, conv, mnist

pytest.importorskip("torch")

# One case of each kind, the smallest; `check` compares ours with PyTorch.
SAMPLES = [
    ("gemm", "NN 256"),
    ("gemm", "NT 256"),
    ("gemm", "TN 256"),
    ("pointwise", "add 4K"),
    ("pointwise", "gelu(x·w+b) 4K"),
    ("softmax", "1024x1000"),
    ("layernorm", "1024x1000"),
    ("attention", "full 1x8x512x64"),
    ("attention", "causal 1x8x512x64"),
    ("kernels", "matmul+bias+gelu 128"),
    ("kernels", "int8 256"),
    ("kernels", "bf16 256"),
    ("kernels", "few rows NN 17"),
    ("kernels", "few rows NT 1"),
    ("kernels", "launched add 64K"),
    ("kernels", "launched softmax 1024x1000"),
    ("kernels", "launched layernorm 1024x1000"),
    ("kernels", "launched matmul 512"),
    ("conv", "lenet conv2"),
    ("conv", "resnet 1x1 s2"),
    ("conv", "mobilenet dw 144@56"),
    ("conv", "lenet conv2 dX"),
    ("conv", "lenet conv2 dW"),
    ("mnist", "infer batch 1"),
    ("models", "DLRM"),
]


def named(suite: str) -> dict[str, Case]:
    return {case.name: case for case in SUITES[suite]("torch")}


def test_a_step_of_training_agrees_and_is_costed() -> None:
    (case,) = (case for case in TRAINING["models"]("torch") if case.name == "train DLRM")
    sides = case.build()
    check(case, sides)
    assert sides.costs is not None
    ours, theirs = sides.costs
    assert ours.compile_s is not None
    assert ours.compile_s > 0
    assert theirs.compile_s is None
    embeddings = 8 * 10_000 * 32 * 4  # whose gradients eager torch holds all at once
    assert theirs.peak_bytes is not None
    assert theirs.peak_bytes > embeddings


@pytest.mark.parametrize("suite", SUITES)
def test_names_are_unique(suite: str) -> None:
    assert len(named(suite)) == len(list(SUITES[suite]("torch")))


@pytest.mark.parametrize(("suite", "name"), SAMPLES)
def test_both_sides_agree(suite: str, name: str) -> None:
    case = named(suite)[name]
    check(case, case.build())


def test_training_takes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist, "EPOCH_STEPS", 4)
    (case,) = (case for name, case in named("mnist").items() if name.startswith("train"))
    sides = case.build()
    check(case, sides)
    assert sides.ours().shape == sides.peer().shape == (4,)  # type: ignore[attr-defined]


def test_both_directions_of_each_shape_count_alike() -> None:
    # ResNet's 3x3 convolution of 64 channels at 56 x 56: 2·64·64·9·56² operations a pass.
    found = named("conv")
    for name in ("resnet 64@56", "resnet 64@56 dX", "resnet 64@56 dW"):
        assert found[name].flops == 2 * 64 * 64 * 9 * 56**2
    assert found["mobilenet dw 144@56"].flops == 2 * 144 * 9 * 56**2


def test_the_peer_of_each_shape_has_its_size() -> None:
    for shape in conv.FORWARD:
        sides = named("conv")[shape.name].build()
        assert tuple(sides.peer().shape) == shape.output  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, in its own compiler
def test_inductor_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        peers.prepare("inductor", 1)
    except peers.PeerError as error:
        pytest.skip(str(error))
    (case,) = (case for case in SUITES["softmax"]("inductor") if case.name == "8192x128")
    check(case, case.build())
    peers.forget()
