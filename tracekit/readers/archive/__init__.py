"""Readers of tracekit's own Parquet archives and JSON lines."""
