"""Planning: learning from transitions that a model imagined.

May import: `agents` and above. What leaves it: one module per planner (`dyna`, `mve`), the order of a planned update
(`recipe`), learned models (`models`, `fitting`).
"""
