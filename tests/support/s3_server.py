# /// script
# requires-python = ">=3.11"
# dependencies = ["moto>=5.1", "flask>=3", "flask-cors>=5", "py-partiql-parser>=0.6", "pyyaml>=6"]
# ///
"""An S3 in memory, on a free port of this machine, which it prints. Has packages of its own, pinned beside it.

Not among those of the project: botocore, under it, would hold the others' dateutil back.
"""

from __future__ import annotations

import sys

from moto.server import main  # type: ignore[import-not-found]

main(["-H", "127.0.0.1", *sys.argv[1:]])
