"""Recurrent layers, bags and attention in what the layer table does not try, by PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import nn

Array = np.ndarray[Any, Any]


def normal(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def close(got: tn.AnyTensor, wanted: Any) -> None:
    np.testing.assert_allclose(got.numpy(), wanted.detach().numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("both", [False, True])
def test_lstm_from_a_state_sequence_first(layers: int, both: bool) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.LSTM(4, 3, layers, bidirectional=both)
    ours = nn.LSTM(4, 3, layers, bidirectional=both)
    ours.load_state_dict(theirs.state_dict())
    places = layers * (1 + both)
    x, h, c = normal((5, 2, 4), (places, 2, 3), (places, 2, 3))
    output, (last_h, last_c) = ours(tn.tensor(x), (tn.tensor(h), tn.tensor(c)))
    expected = theirs(torch.from_numpy(x), (torch.from_numpy(h), torch.from_numpy(c)))
    close(output, expected[0])
    close(last_h, expected[1][0])
    close(last_c, expected[1][1])


def test_lstm_cell_from_a_state() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.LSTMCell(4, 3)
    ours = nn.LSTMCell(4, 3)
    ours.load_state_dict(theirs.state_dict())
    x, h, c = normal((2, 4), (2, 3), (2, 3))
    expected = theirs(torch.from_numpy(x), (torch.from_numpy(h), torch.from_numpy(c)))
    for got, wanted in zip(ours(tn.tensor(x), (tn.tensor(h), tn.tensor(c))), expected, strict=True):
        close(got, wanted)


def test_lstm_drops_between_layers_in_training_only() -> None:
    layer = nn.LSTM(4, 3, 2, dropout=0.9)
    (x,) = normal((3, 2, 4))
    calm = layer(tn.tensor(x))[0].numpy()
    np.testing.assert_array_equal(calm, layer(tn.tensor(x))[0].numpy())
    with tn.training():
        assert not np.array_equal(calm, layer(tn.tensor(x))[0].numpy())


def test_lstm_of_any_batch_but_one_length() -> None:
    layer = nn.LSTM(4, 3)
    assert tn.trace(layer, tn.SymTensor.input(tn.f32, (5, "n", 4))).outputs[0].shape[0] == 5
    with pytest.raises(tn.ShapeError, match="fixed length"):
        tn.trace(layer, tn.SymTensor.input(tn.f32, ("t", 2, 4)))


def test_factors_of_a_bag() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.EmbeddingBag(9, 4, mode="sum")
    ours = nn.EmbeddingBag(9, 4, "sum")
    ours.load_state_dict(theirs.state_dict())
    index = np.random.default_rng(0).integers(0, 9, (5, 3))
    (factors,) = normal((5, 3))
    expected = theirs(torch.from_numpy(index), per_sample_weights=torch.from_numpy(factors))
    close(ours(tn.tensor(index), tn.tensor(factors)), expected)
    with pytest.raises(tn.OpError, match="mode='sum'"):
        nn.EmbeddingBag(9, 4)(tn.tensor(index), tn.tensor(factors))


@pytest.mark.parametrize(("masked", "causal"), [(False, False), (True, False), (False, True)])
def test_queries_share_keys(masked: bool, causal: bool) -> None:
    torch = pytest.importorskip("torch")
    q, k, v, mask = normal((2, 6, 5, 4), (2, 2, 7, 4), (2, 2, 7, 3), (5, 7))
    attend = nn.functional.scaled_dot_product_attention
    peer = torch.nn.functional.scaled_dot_product_attention
    ours_mask, their_mask = (tn.tensor(mask), torch.from_numpy(mask)) if masked else (None, None)
    got = attend(*map(tn.tensor, (q, k, v)), attn_mask=ours_mask, is_causal=causal, enable_gqa=True)
    tensors = map(torch.from_numpy, (q, k, v))
    close(got, peer(*tensors, attn_mask=their_mask, is_causal=causal, enable_gqa=True))


def test_heads_that_cannot_be_shared() -> None:
    q, k = (tn.tensor(x) for x in normal((1, 4, 5, 2), (1, 3, 5, 2)))
    with pytest.raises(tn.ShapeError, match="divides that of queries"):
        nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)


@pytest.mark.parametrize("more", [(2, 0), (-1, 0)])
def test_output_padding_is_less_than_a_step(more: tuple[int, int]) -> None:
    (x, w) = (tn.tensor(a) for a in normal((1, 2, 3, 3), (2, 2, 2, 2)))
    with pytest.raises(tn.ShapeError, match="output_padding"):
        x.conv_transpose2d(w, stride=2, output_padding=more)
