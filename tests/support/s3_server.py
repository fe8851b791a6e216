# /// script
# requires-python = ">=3.11"
# dependencies = ["moto>=5.1", "flask>=3", "flask-cors>=5", "py-partiql-parser>=0.6", "pyyaml>=6"]
# ///
"""In-memory S3 server on a free port, which it prints. Its packages are pinned beside it.

They are not among the packages of the project: botocore would pin an older dateutil.
"""

from __future__ import annotations

import sys

from moto.server import main  # type: ignore[import-not-found]

main(["-H", "127.0.0.1", *sys.argv[1:]])
