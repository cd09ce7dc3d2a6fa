"""The headline of a trace: the figures of the first screen."""
