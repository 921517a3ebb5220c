"""Capsules: folders that show a difference between two frameworks without metaop, for whoever maintains these."""

from metaop.debug.capsule.case import Case
from metaop.debug.capsule.folder import Capsule, write_capsule

__all__ = ["Capsule", "Case", "write_capsule"]
