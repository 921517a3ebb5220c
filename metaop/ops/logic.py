"""The logic family."""
