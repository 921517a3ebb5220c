"""The loss family."""
