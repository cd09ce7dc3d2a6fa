"""Readers: one folder a producer. `tracekit.formats` declares them all."""
