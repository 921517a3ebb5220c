"""The normalization family."""
