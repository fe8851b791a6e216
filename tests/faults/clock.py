"""A clock that can be set for one service: a library that is loaded before the C library shifts the time of day."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *offset_seconds;
static int (*get_time)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void) {
    get_time = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("CLEW_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED) offset_seconds = page;
}

int clock_gettime(clockid_t clock, struct timespec *result) {
    if (!get_time) start();
    int status = get_time(clock, result);
    if (offset_seconds && clock == CLOCK_REALTIME) result->tv_sec += *offset_seconds;
    return status;
}

int gettimeofday(struct timeval *restrict result, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    result->tv_sec = now.tv_sec;
    result->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
"""


class ShiftedClock:
    """Time of day of the processes that are started with `environment`, as an offset from that of the machine."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        source, library, offset = folder / "clock.c", folder / "clock.so", folder / "offset"
        source.write_text(_SOURCE)
        compiler = shutil.which("cc") or "cc"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        offset.write_bytes(struct.pack("l", 0))
        with offset.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), struct.calcsize("l"))
        self.environment = {"LD_PRELOAD": str(library), "CLEW_TEST_CLOCK": str(offset)}

    def shift(self, seconds: int) -> None:
        """Set the offset."""
        self._page[:] = struct.pack("l", seconds)


def has_compiler() -> bool:
    """Return whether the library can be built."""
    return shutil.which("cc") is not None
