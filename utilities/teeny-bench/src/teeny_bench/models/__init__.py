"""The models of the zoo that are not of vision; `teeny_bench.zoo` has all of them, with sizes."""

from teeny_bench.models.bert import BertEncoder as BertEncoder
from teeny_bench.models.dlrm import Dlrm as Dlrm
from teeny_bench.models.gpt2 import Gpt2Blocks as Gpt2Blocks
from teeny_bench.models.llama import LlamaBlocks as LlamaBlocks
from teeny_bench.models.lstm import LstmClassifier as LstmClassifier
