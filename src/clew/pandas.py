"""`import clew.pandas` registers the DataFrame accessor `df.lineage`.

Capture registers it too, and so does `import clew` if pandas is already imported.
"""

from __future__ import annotations

from clew.capture.frames.lineage_accessor import LineageAccessor, register_accessor

__all__ = ["LineageAccessor"]

register_accessor()
