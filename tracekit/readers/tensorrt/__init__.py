"""Outputs of TensorRT's trtexec: times of layers and of queries, what the layers are, and the tables in its log."""
