"""What a run is: its settings, the grid of its members, and what is refused.

May import: `envs` and above. What leaves it: `Config`, `Member`, `Options` and their defaults.
"""
