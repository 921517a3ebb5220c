"""PyTorch. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.torch.adapter import TorchBackend

BACKEND = TorchBackend
