"""What can be set, and who has the last word: a flag, then the environment, then `clew.toml`, then the default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from clew.errors import UsageError

FILE_NAME: Final = "clew.toml"


class Setting(NamedTuple):
    """A setting by its variable of the environment; in `clew.toml` it has the key that it is listed by."""

    variable: str
    default: str | None = None
    is_path: bool = False
    choices: tuple[str, ...] = ()


class Chosen(NamedTuple):
    """The value of a setting, and where it was said: `flag`, a variable, the path of a file, or `default`."""

    value: str | None
    origin: str


SETTINGS: Final[Mapping[str, Setting]] = {
    "home": Setting("CLEW_HOME", is_path=True),
    "lake": Setting("CLEW_LAKE", is_path=True),
    "index": Setting("CLEW_INDEX"),
    "java": Setting("CLEW_JAVA", "auto", choices=("auto", "system", "bundled")),
    "master": Setting("CLEW_MASTER", "local[2]"),
    "metrics": Setting("CLEW_METRICS", "all", choices=("all", "counts", "off")),
    "spec": Setting("CLEW_SPEC", is_path=True),
}


def chosen(name: str, flag: str | None = None) -> Chosen:
    """What counts for a setting; an empty flag or variable says nothing."""
    setting = SETTINGS[name]
    if flag:
        return Chosen(flag, "flag")
    variable = os.environ.get(setting.variable)
    if variable:
        return Chosen(variable, setting.variable)
    file = nearest_file()
    said = {} if file is None else read(file)
    return Chosen(said[name], str(file)) if name in said else Chosen(setting.default, "default")


def nearest_file() -> Path | None:
    """The `clew.toml` of the working directory, or of the nearest folder above that has one."""
    here = Path.cwd()
    return next((folder / FILE_NAME for folder in (here, *here.parents) if (folder / FILE_NAME).is_file()), None)


def read(file: Path) -> dict[str, str]:
    """What a file sets. Paths are meant from its folder."""
    import tomllib

    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise UsageError(f"{file} cannot be read: {fault}.", hint="Mend it, or move it away.") from fault
    return {name: _value(file, name, value) for name, value in said.items()}


def _value(file: Path, name: str, value: Any) -> str:
    setting = SETTINGS.get(name)
    if setting is None:
        hint = f"Settings are {', '.join(SETTINGS)}."
        raise UsageError(f"{file} sets {name!r}, which is no setting.", hint=hint)
    if not isinstance(value, str) or not value or (setting.choices and value not in setting.choices):
        hint = (
            f"Give {', '.join(setting.choices[:-1])} or {setting.choices[-1]}." if setting.choices else "Give a text."
        )
        raise UsageError(f"{file} sets {name} to {value!r}.", hint=hint)
    is_relative = setting.is_path and "://" not in value and not value.startswith("~")
    return str(file.parent / value) if is_relative else value
