"""Measured training runs, their predictions, and how far the two are apart."""
