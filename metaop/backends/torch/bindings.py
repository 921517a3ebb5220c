"""The table of PyTorch bindings; one file per family fills it."""

from metaop.backends.bind import Bindings

bind = Bindings("torch")
