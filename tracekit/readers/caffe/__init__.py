"""Readers of `caffe time` and of Mini-Caffe's trace."""
