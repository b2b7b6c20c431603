from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import ConfigError, LoadError, state
from teeny_vision import mnist, models
from teeny_vision.models import LeNet5, Mlp

torch = pytest.importorskip("torch")


class TorchLeNet5(torch.nn.Module):  # type: ignore[misc]
    """LeNet-5 as one writes it in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(6, 16, 5)
        self.head = torch.nn.Sequential(
            torch.nn.Flatten(),
            torch.nn.Linear(400, 120),
            torch.nn.ReLU(),
            torch.nn.Linear(120, 84),
            torch.nn.ReLU(),
            torch.nn.Linear(84, 10),
        )

    def forward(self, x: Any) -> Any:
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.head(x)


def torch_mlp() -> Any:
    return torch.nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(784, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )


PAIRS = [("lenet5", TorchLeNet5), ("mlp", torch_mlp)]


def logits(model: LeNet5 | Mlp, images: np.ndarray) -> np.ndarray:
    graph = tn.trace(model, tn.SymTensor.input(tn.f32, (None, 1, 28, 28)))
    return np.asarray(tn.compile(graph, device="ndarray")(images))


@pytest.mark.parametrize(("name", "make"), PAIRS)
def test_a_state_of_pytorch_gives_the_same_logits(name: str, make: Any) -> None:
    torch.manual_seed(0)
    theirs = make()
    ours = mnist.build(name)
    ours.load_state_dict(theirs.state_dict())
    images = np.random.default_rng(0).standard_normal((5, 1, 28, 28), np.float32)
    with torch.inference_mode():
        want = theirs(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(logits(ours, images), want, atol=1e-5)


@pytest.mark.parametrize(("name", "make"), PAIRS)
def test_a_file_of_pytorch_is_known_by_its_tensors(name: str, make: Any, tmp_path: Any) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    theirs = make()
    safetensors.save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    ours = mnist.load_model(tmp_path / "theirs.safetensors")
    for key, tensor in theirs.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[key].numpy(), tensor.numpy())


def test_lenet5_has_the_parameters_of_the_paper_with_full_connections() -> None:
    count = sum(tn.numel(parameter.shape) for _, parameter in LeNet5().named_parameters())
    assert count == 6 * 26 + 16 * 151 + 120 * 401 + 84 * 121 + 10 * 85 == 61_706


def test_other_numbers_of_classes() -> None:
    assert logits(LeNet5(classes=3), np.zeros((2, 1, 28, 28), np.float32)).shape == (2, 3)
    wide = Mlp(784, hidden=(), classes=4)
    assert logits(wide, np.zeros((2, 1, 28, 28), np.float32)).shape == (2, 4)


def test_an_unknown_model() -> None:
    with pytest.raises(ConfigError, match="no model is called 'vgg'\nhint: choose from lenet5, m"):
        mnist.build("vgg")


def test_a_file_with_other_tensors(tmp_path: Any) -> None:
    path = tmp_path / "other.safetensors"
    state.save(path, {"weight": np.zeros(3, np.float32)})
    with pytest.raises(LoadError, match="holds no model for MNIST, but weight"):
        mnist.load_model(path)


def test_a_file_with_tensors_of_other_shapes(tmp_path: Any) -> None:
    tensors = {name: np.zeros(3, np.float32) for name in LeNet5().state_dict()}
    state.save(tmp_path / "other.safetensors", tensors)
    with pytest.raises(LoadError, match=r"conv1\.weight has the shape"):
        mnist.load_model(tmp_path / "other.safetensors")


@pytest.mark.parametrize(
    ("make", "published"),
    [
        (models.ResNet18, 11_689_512),  # torchvision's documentation
        (models.MobileNetV2, 3_504_872),  # torchvision's documentation
        (models.VisionTransformer, 5_717_416),  # timm's vit_tiny_patch16_224
    ],
)
def test_sizes_are_the_published_ones(make: Any, published: int) -> None:
    count = sum(tn.numel(parameter.shape) for _, parameter in make().named_parameters())
    assert count == published


def test_a_unet_gives_a_class_for_each_pixel_at_any_size() -> None:
    model = models.UNet(classes=3, width=4, depth=2)
    for height, width in ((8, 12), (16, 4)):
        x = np.zeros((2, 3, height, width), np.float32)
        graph = tn.trace(model, tn.SymTensor.input(tn.f32, x.shape))
        assert tn.compile(graph, "ndarray")(x).shape == (2, 3, height, width)  # type: ignore[union-attr]
