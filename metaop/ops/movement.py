"""The movement family."""
