"""Agents: pure functions of one member.

May import: `errors`, `types`, `machine`, `rules`. What leaves it: the contract (`base`), one module per agent, and what
they are made of: networks, optimisers, exploration.
"""
