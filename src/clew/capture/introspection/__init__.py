"""Introspection of the running user code. Specific to CPython.

- `user_code.py`: distinguish user code from libraries; re-entrancy guard
- `bytecode.py`: statements, operands and definitions from bytecode
- `source_map.py`: source text, assigned name and parameters of a code position
- `read_tracking.py`: which values the running statement has read
"""
