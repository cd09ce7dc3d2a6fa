"""Profiles of samples: stacks with how often they were seen, or how long."""
