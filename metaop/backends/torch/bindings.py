"""The table of PyTorch bindings; one file per family fills it. Releases from 1.7 on are known to work."""

import torch

from metaop.backends.bind import Bindings

bind = Bindings("torch")

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
if VERSION < (1, 7):
    raise ImportError("metaop binds PyTorch from release 1.7 on; this is " + torch.__version__)
