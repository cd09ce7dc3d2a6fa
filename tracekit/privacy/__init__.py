"""Traces that are safe to share: credentials are masked in everything that is read, once, for all outputs."""
