"""MNIST: the data, models for it, their training and their use."""

from teeny_vision.mnist.augment import Augment as Augment
from teeny_vision.mnist.batches import Batches as Batches
from teeny_vision.mnist.data import Mnist as Mnist
from teeny_vision.mnist.data import load as load
from teeny_vision.mnist.data import normalise as normalise
from teeny_vision.mnist.image import read_digit as read_digit
from teeny_vision.mnist.models import MODELS as MODELS
from teeny_vision.mnist.models import Model as Model
from teeny_vision.mnist.models import build as build
from teeny_vision.mnist.models import load_model as load_model
from teeny_vision.mnist.models import mnist_lenet5 as mnist_lenet5
from teeny_vision.mnist.models import mnist_mlp as mnist_mlp
from teeny_vision.mnist.prediction import Classifier as Classifier
from teeny_vision.mnist.prediction import Prediction as Prediction
from teeny_vision.mnist.prediction import accuracy as accuracy
from teeny_vision.mnist.training import Position as Position
from teeny_vision.mnist.training import Progress as Progress
from teeny_vision.mnist.training import Recipe as Recipe
from teeny_vision.mnist.training import Training as Training
