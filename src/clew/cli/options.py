"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

import click

from clew.errors import UsageError
from clew.home import Home
from clew.settings import SETTINGS, chosen

_UNITS = {"d": "days", "h": "hours"}


def home_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--home DIR`, given to the command as a Home."""

    @wraps(command)
    def with_home(*args: Any, home: str | None, **kwargs: Any) -> Any:
        return command(*args, home=Home.find(home), **kwargs)

    return _home(with_home)


def index_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--home DIR` and `--index URL`, given to the command as a Home."""

    @wraps(command)
    def with_index(*args: Any, home: str | None, index: str | None, **kwargs: Any) -> Any:
        return command(*args, home=Home.find(home, index=index), **kwargs)

    return _home(_index(with_index))


def lake_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--home DIR`, `--lake PATH|URL` and `--index URL`, given to the command as a Home."""

    @wraps(command)
    def with_lake(*args: Any, home: str | None, lake: str | None, index: str | None, **kwargs: Any) -> Any:
        from clew.lake.storage import told_of

        found = Home.find(home, lake, index)
        with told_of(found.lake):
            return command(*args, home=found, **kwargs)

    text = "Folder of the lake, or its URL: s3://bucket/prefix. Default: CLEW_LAKE, or the folder lake in the home."
    return _home(click.option("--lake", metavar="PATH|URL", default=None, help=text)(_index(with_lake)))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--master` and `--conf`, given to the command as `master` and a dictionary `conf`."""

    @wraps(command)
    def with_spark(*args: Any, conf: tuple[str, ...], **kwargs: Any) -> Any:
        return command(*args, conf=dict(map(_setting, conf)), **kwargs)

    conf_option = click.option(
        "--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated."
    )
    master_option = click.option(
        "--master",
        default=lambda: chosen("master").value,
        show_default=str(SETTINGS["master"].default),
        help="The Spark master to run on.",
    )
    return master_option(conf_option(with_spark))


def age(text: str) -> timedelta:
    """How long ago: `90d` or `36h`."""
    found = re.fullmatch(r"(\d{1,5})([dh])", text)
    if found is None:
        raise UsageError(f"{text!r} is no age.", hint="Write 90d for days, or 36h for hours.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _home(command: Callable[..., Any]) -> Callable[..., Any]:
    text = "Folder of all clew's state. Default: CLEW_HOME, the nearest .clew above, or ~/.clew."
    return click.option("--home", type=click.Path(file_okay=True), default=None, help=text)(command)


def _index(command: Callable[..., Any]) -> Callable[..., Any]:
    text = "postgresql:// URL of the index. Default: CLEW_INDEX, or a file in the home."
    return click.option("--index", metavar="URL", default=None, help=text)(command)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--conf {text!r} is no setting.", hint="Write it as --conf spark.some.key=value.")
    return key, value
