"""Training: the loop over steps, evaluations and checkpoints.

May import: `runs` and above. What leaves it: `start` (a run in the foreground), the plan of a run, the loop that
follows it, cohorts in threads or processes, evaluation.
"""
