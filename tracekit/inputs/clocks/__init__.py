"""The clocks of inputs that are one run: how far apart they are, by which method that is known, and how surely."""
