"""Settings, resolved in this order: flag, environment variable, `clew.toml`, default."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from clew.errors import UsageError

FILE_NAME: Final = "clew.toml"
# Port of `clew serve` and `clew demo`.
DEFAULT_PORT: Final = 8777


class Setting(NamedTuple):
    """Declaration of a setting; its key in `clew.toml` is its key in SETTINGS."""

    env_var: str
    default: str | None = None
    is_path: bool = False
    choices: tuple[str, ...] = ()


class ResolvedSetting(NamedTuple):
    """Value of a setting and its source: `flag`, an environment variable, a file path, or `default`."""

    value: str | None
    source: str


SETTINGS: Final[Mapping[str, Setting]] = {
    "home": Setting("CLEW_HOME", is_path=True),
    "lake": Setting("CLEW_LAKE", is_path=True),
    "index": Setting("CLEW_INDEX"),
    "invalid_events": Setting("CLEW_INVALID_EVENTS", "reject", choices=("reject", "accept")),
    "java": Setting("CLEW_JAVA", "auto", choices=("auto", "system", "bundled")),
    "kafka_config": Setting("CLEW_KAFKA_CONFIG", is_path=True),
    "master": Setting("CLEW_MASTER", "local[2]"),
    "metrics": Setting("CLEW_METRICS", "all", choices=("all", "counts", "off")),
    "spec": Setting("CLEW_SPEC", is_path=True),
}


def resolve_setting(name: str, flag: str | None = None) -> ResolvedSetting:
    """Resolve a setting; an empty flag or variable counts as not set."""
    setting = SETTINGS[name]
    if flag:
        return ResolvedSetting(flag, "flag")
    env_value = os.environ.get(setting.env_var)
    if env_value:
        return ResolvedSetting(env_value, setting.env_var)
    file = find_config_file()
    values = {} if file is None else read_config_file(file)
    return ResolvedSetting(values[name], str(file)) if name in values else ResolvedSetting(setting.default, "default")


def find_config_file() -> Path | None:
    """Find `clew.toml` in the working directory or the nearest parent folder."""
    here = Path.cwd()
    return next((folder / FILE_NAME for folder in (here, *here.parents) if (folder / FILE_NAME).is_file()), None)


def read_config_file(file: Path) -> dict[str, str]:
    """Read the settings of a file. Relative paths are relative to its folder."""
    import tomllib

    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"Cannot read {file}: {error}.", hint="Fix the file or remove it.") from error
    return {name: _value(file, name, value) for name, value in values.items()}


def _value(file: Path, name: str, value: Any) -> str:
    setting = SETTINGS.get(name)
    if setting is None:
        hint = f"Valid settings: {', '.join(SETTINGS)}."
        raise UsageError(f"Unknown setting {name!r} in {file}.", hint=hint)
    if not isinstance(value, str) or not value or (setting.choices and value not in setting.choices):
        hint = (
            f"Use {', '.join(setting.choices[:-1])} or {setting.choices[-1]}." if setting.choices else "Use a string."
        )
        raise UsageError(f"Invalid value {value!r} for {name} in {file}.", hint=hint)
    is_relative = setting.is_path and "://" not in value and not value.startswith("~")
    return str(file.parent / value) if is_relative else value


_AGE = re.compile(r"(\d{1,5})([mhd])")
_AGE_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def parse_age(text: str) -> timedelta | None:
    """Parse an age such as `30m`, `36h` or `90d`; None for other texts."""
    match = _AGE.fullmatch(text)
    return None if match is None else timedelta(**{_AGE_UNITS[match[2]]: int(match[1])})
