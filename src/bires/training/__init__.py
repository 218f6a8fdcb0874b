"""Training: the loop over steps, evaluations and checkpoints.

May import: `runs` and above. What leaves it: `start` (a run in the foreground), the trainer, cohorts in threads or
processes, evaluation.
"""
