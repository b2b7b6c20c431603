import numpy as np
import pytest
import teeny_core as tn
from teeny_vision import mnist
from teeny_vision.mnist import prediction

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 28, 28), np.uint8)


def reference(model: mnist.Model) -> np.ndarray:
    """The probabilities of a perceptron, in float64."""
    weights = {name: tensor.numpy().astype(float) for name, tensor in model.state_dict().items()}
    x = mnist.normalise(IMAGES).reshape(7, -1).astype(float)
    for index in (1, 3, 5):
        x = x @ weights[f"{index}.weight"].T + weights[f"{index}.bias"]
        x = x if index == 5 else np.maximum(x, 0)
    exponentials = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(1, keepdims=True))


@pytest.fixture
def model() -> mnist.Model:
    tn.manual_seed(0)
    return mnist.build("mlp")


def test_probabilities(model: mnist.Model) -> None:
    found = mnist.Classifier(model, "ndarray").probabilities(IMAGES)
    np.testing.assert_allclose(found, reference(model), rtol=1e-4)


def test_predictions(model: mnist.Model) -> None:
    want = reference(model)
    predictions = mnist.Classifier(model, "ndarray")(list(IMAGES))
    assert [prediction.label for prediction in predictions] == want.argmax(1).tolist()
    for one, row in zip(predictions, want, strict=True):
        assert one.probability == max(one.probabilities) == pytest.approx(row.max(), rel=1e-4)
        assert sum(one.probabilities) == pytest.approx(1, abs=1e-6)


def test_the_first_of_equals_is_the_label() -> None:
    assert mnist.Prediction((0.2, 0.4, 0.4)).label == 1


def test_images_go_in_chunks(model: mnist.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = mnist.Classifier(model, "ndarray")
    whole = classifier.probabilities(IMAGES)
    monkeypatch.setattr(prediction, "CHUNK", 3)
    np.testing.assert_allclose(classifier.probabilities(IMAGES), whole, rtol=1e-6)


def test_accuracy(model: mnist.Model) -> None:
    labels = reference(model).argmax(1)
    assert mnist.accuracy(model, IMAGES, labels, "ndarray") == 1.0
    labels[:2] = (labels[:2] + 1) % 10
    assert mnist.accuracy(model, IMAGES, labels, "ndarray") == pytest.approx(5 / 7)


def test_a_classifier_sees_later_weights(model: mnist.Model) -> None:
    classifier = mnist.Classifier(model, "ndarray")
    other = mnist.build("mlp")
    model.load_state_dict(other.state_dict())
    np.testing.assert_allclose(classifier.probabilities(IMAGES), reference(other), rtol=1e-4)
