"""Chaos: runs under random faults until they are finished; their files must equal those of the same runs undisturbed.

make chaos                                   # every kind of fault, on two cores in minutes
python -m benchmarks.chaos --only SIGSTOP    # some kinds, by a part of their names
python -m benchmarks.chaos --list            # what there is
"""
