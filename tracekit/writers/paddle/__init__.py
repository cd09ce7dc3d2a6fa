"""Paddle's own protobuf files."""
