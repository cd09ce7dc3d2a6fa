"""Traces in several files, or with fewer events: for viewers that take no more."""
