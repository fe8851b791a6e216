"""`import clew.pandas` gives every DataFrame an accessor: `df.lineage` shows where the frame came from.

Capture gives it as well, and so does `import clew` where pandas is there already.
"""

from __future__ import annotations

from clew.capture.frames.lineage_accessor import LineageAccessor, give_accessor

__all__ = ["LineageAccessor"]

give_accessor()
