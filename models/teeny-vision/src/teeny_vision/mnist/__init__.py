"""MNIST: the data, in batches ready for training."""

from teeny_vision.mnist.augment import Augment as Augment
from teeny_vision.mnist.batches import Batches as Batches
from teeny_vision.mnist.data import Mnist as Mnist
from teeny_vision.mnist.data import load as load
from teeny_vision.mnist.data import normalise as normalise
