"""The policy-evaluation lab: TD, residual gradients and Gradient-TD, exact and sampled.

It needs nothing but `bires.rules` and shares them with the deep agents, so what the eigenvalues say here is said of the
same updates.

May import: `errors`, `rules`. What leaves it: problems, exact solutions, sampled algorithms, and the study of them.
"""
