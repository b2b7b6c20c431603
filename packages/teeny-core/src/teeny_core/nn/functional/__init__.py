"""Layers and losses as functions of tensors, with PyTorch's names and conventions.

Statistics and losses of f16 and bf16 are computed in f32; the result has the type of the input.
"""

from teeny_core.nn.functional.attention import attention_weights as attention_weights
from teeny_core.nn.functional.attention import causal_mask as causal_mask
from teeny_core.nn.functional.attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from teeny_core.nn.functional.basic import BAGS as BAGS
from teeny_core.nn.functional.basic import adaptive_avg_pool2d as adaptive_avg_pool2d
from teeny_core.nn.functional.basic import embedding as embedding
from teeny_core.nn.functional.basic import embedding_bag as embedding_bag
from teeny_core.nn.functional.basic import linear as linear
from teeny_core.nn.functional.basic import one_hot as one_hot
from teeny_core.nn.functional.loss import (
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
)
from teeny_core.nn.functional.loss import cross_entropy as cross_entropy
from teeny_core.nn.functional.loss import l1_loss as l1_loss
from teeny_core.nn.functional.loss import mse_loss as mse_loss
from teeny_core.nn.functional.loss import nll_loss as nll_loss
from teeny_core.nn.functional.normalisation import batch_norm as batch_norm
from teeny_core.nn.functional.normalisation import group_norm as group_norm
from teeny_core.nn.functional.normalisation import layer_norm as layer_norm
from teeny_core.nn.functional.normalisation import rms_norm as rms_norm
from teeny_core.nn.functional.random import dropout as dropout
from teeny_core.tensor import AnyTensor

# methods of tensors under their names: `functional.relu(x)` is `x.relu()`
relu = AnyTensor.relu
relu6 = AnyTensor.relu6
leaky_relu = AnyTensor.leaky_relu
elu = AnyTensor.elu
gelu = AnyTensor.gelu
silu = AnyTensor.silu
sigmoid = AnyTensor.sigmoid
logsigmoid = AnyTensor.logsigmoid
tanh = AnyTensor.tanh
softplus = AnyTensor.softplus
hardsigmoid = AnyTensor.hardsigmoid
hardswish = AnyTensor.hardswish
softmax = AnyTensor.softmax
log_softmax = AnyTensor.log_softmax
conv2d = AnyTensor.conv2d
conv_transpose2d = AnyTensor.conv_transpose2d
max_pool2d = AnyTensor.max_pool2d
avg_pool2d = AnyTensor.avg_pool2d
