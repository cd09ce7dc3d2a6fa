"""Readers of Paddle fluid's two outputs: profile and printed report."""
