"""Members as one compiled program.

May import: `settings` and above. What leaves it: `Program` (what is computed), `Compiled` (how it is stepped), replay
and random streams.
"""
