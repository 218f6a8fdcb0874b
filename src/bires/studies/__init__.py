"""The paper's figures, and others: which populations, which claims, how they are run.

May import: `linear` and above. What leaves it: study records, claims, running on this machine or on a cluster.
"""
