"""Vision models and data of teeny: MNIST, LeNet-5."""
