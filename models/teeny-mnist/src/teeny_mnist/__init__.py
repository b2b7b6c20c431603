"""The MNIST data set of handwritten digits, as a data-only package."""
