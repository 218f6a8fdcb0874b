"""Learned models of an environment."""
