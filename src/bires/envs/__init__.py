"""Environments: real simulators behind one interface, in this process or in workers.

May import: `planning` and above. What leaves it: `Recipe` (how to build one), `Pool` (all of a cohort), the oracle.
"""
