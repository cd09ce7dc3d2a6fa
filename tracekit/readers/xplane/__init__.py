"""XPlane profiles of TensorFlow, JAX and PyTorch/XLA."""
