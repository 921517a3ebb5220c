"""The pooling family."""
