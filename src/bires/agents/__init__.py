"""Agents: small records of pure functions over a learner's state."""
