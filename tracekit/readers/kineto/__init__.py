"""Reader of PyTorch's Kineto traces."""
