"""The models of the zoo as one writes them in PyTorch, with the same names of tensors.

They import torch when they are imported.
"""

from teeny_bench.twins.tables import Dlrm as Dlrm
from teeny_bench.twins.tables import LstmClassifier as LstmClassifier
from teeny_bench.twins.transformers import BertEncoder as BertEncoder
from teeny_bench.twins.transformers import Gpt2Blocks as Gpt2Blocks
from teeny_bench.twins.transformers import LlamaBlocks as LlamaBlocks
from teeny_bench.twins.transformers import VisionTransformer as VisionTransformer
from teeny_bench.twins.vision import LeNet5 as LeNet5
from teeny_bench.twins.vision import Mlp as Mlp
from teeny_bench.twins.vision import MobileNetV2 as MobileNetV2
from teeny_bench.twins.vision import ResNet18 as ResNet18
from teeny_bench.twins.vision import UNet as UNet
