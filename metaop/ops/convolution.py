"""The convolution family."""
