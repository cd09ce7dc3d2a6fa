"""Views of work: how well devices are used, and matrix products, convolutions and attention by shape."""
