"""How frameworks compute the meta operators; nothing here loads a framework until it is used."""

from metaop.backends.base import Backend
from metaop.backends.catalog import BackendInfo, backends, canonical, derive, get, support

__all__ = ["Backend", "BackendInfo", "backends", "canonical", "derive", "get", "support"]
