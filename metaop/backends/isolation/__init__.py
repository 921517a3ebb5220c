"""Backends in processes, and environments, of their own."""

from metaop.backends.isolation.process import limits

__all__ = ["limits"]
