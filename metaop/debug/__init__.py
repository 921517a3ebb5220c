"""Debugging: swap operators between frameworks, record, localise, verify."""

from metaop.debug.records import DebugReport, Record, Verification
from metaop.debug.session import DebugSession

__all__ = ["DebugReport", "DebugSession", "Record", "Verification"]
