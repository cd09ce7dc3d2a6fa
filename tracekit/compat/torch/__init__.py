"""The tables of PyTorch's profilers: `key_averages().table()`, and its layout."""
