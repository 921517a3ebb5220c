"""What metaop costs, as ratios to the same computation written by hand; ``python -m benchmarks.overhead``."""
