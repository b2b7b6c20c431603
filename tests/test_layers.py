"""Every layer and its gradients on the compiled device, against the references of the ops."""

import pytest
import teeny_core as tn
from teeny_core.nn import testing
from teeny_core.nn.testing import LayerCase


@pytest.mark.parametrize("case", testing.CASES, ids=str)
def test_layer_in_training(case: LayerCase) -> None:
    tn.manual_seed(0)
    testing.check_device(tn.device("cpu"), case, train=True)


@pytest.mark.parametrize("case", [c for c in testing.CASES if c.name.startswith("Batch")], ids=str)
def test_layer_in_inference(case: LayerCase) -> None:
    tn.manual_seed(0)
    testing.check_device(tn.device("cpu"), case, train=False)
