"""Packets of a Perfetto trace as columns: framing, the state of sequences, clocks; and protobuf by columns."""
