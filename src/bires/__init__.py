"""Residual algorithms for deep reinforcement learning."""

__version__ = "0.1.0"
