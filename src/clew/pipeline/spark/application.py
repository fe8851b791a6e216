"""The Spark application of a running pipeline, for `clew pipeline status`. Does not import Spark."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import msgspec
from msgspec import Struct

from clew.data_dir import DataDir

_STATE_FILE = "spark.json"


class SparkApplication(Struct, frozen=True):
    """Master, id and executors (`host:port`) of a Spark application, and the process of its driver."""

    master: str
    application_id: str
    executors: tuple[str, ...]
    driver_pid: int = msgspec.field(default_factory=os.getpid)
    driver_host: str = msgspec.field(default_factory=socket.gethostname)

    def __str__(self) -> str:
        if not self.executors:
            return self.master
        count = "1 executor" if len(self.executors) == 1 else f"{len(self.executors)} executors"
        return f"{self.master}, {count}: {', '.join(self.executors)} ({self.application_id})"


def write_application(home: DataDir, application: SparkApplication) -> None:
    """Store the application; a full disk does not stop the pipeline."""
    temporary = home.root / f"{_STATE_FILE}.tmp"
    with suppress(OSError):
        temporary.write_bytes(msgspec.json.encode(application))
        temporary.replace(home.root / _STATE_FILE)


def remove_application(home: DataDir) -> None:
    """Remove the stored application when its pipeline ends."""
    with suppress(OSError):
        (home.root / _STATE_FILE).unlink(missing_ok=True)


def read_application(home: DataDir) -> SparkApplication | None:
    """Read the application of the running pipeline; None if there is none, or if its driver was killed."""
    try:
        application = msgspec.json.decode((home.root / _STATE_FILE).read_bytes(), type=SparkApplication)
    except (OSError, msgspec.DecodeError):
        return None
    if application.driver_host == socket.gethostname():
        try:
            os.kill(application.driver_pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            # It runs, as another user.
            return application
    return application
