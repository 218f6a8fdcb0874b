"""Tools: the benchmark, the doctor, videos.

May import: `studies` and above. What leaves it: one function per tool.
"""
