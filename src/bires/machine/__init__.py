"""This computer: cores, memory, accelerators and processes, and how a compiled program calls Python.

May import: `errors`. What leaves it: placement of a population (`hardware`), whether it fits (`memory`), calls from
programs to the host (`hostcalls`), work that is not always due (`branching`), processes (`processes`, `mps`), text for
terminals (`terminal`).
"""
