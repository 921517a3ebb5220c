"""``python -m metaop`` is the command ``metaop``."""

from metaop.cli import run

run()
