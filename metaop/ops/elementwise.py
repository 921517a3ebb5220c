"""The elementwise family."""
