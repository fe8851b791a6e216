"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from clew.errors import UsageError
from clew.home import Home


def home_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--home DIR`, given to the command as a Home."""

    @wraps(command)
    def with_home(*args: Any, home: str | None, **kwargs: Any) -> Any:
        return command(*args, home=Home.find(home), **kwargs)

    text = "Folder of all clew's state. Default: CLEW_HOME, the nearest .clew above, or ~/.clew."
    return click.option("--home", type=click.Path(file_okay=True), default=None, help=text)(with_home)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--master` and `--conf`, given to the command as `master` and a dictionary `conf`."""

    @wraps(command)
    def with_spark(*args: Any, conf: tuple[str, ...], **kwargs: Any) -> Any:
        return command(*args, conf=dict(map(_setting, conf)), **kwargs)

    conf_option = click.option(
        "--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated."
    )
    master_option = click.option("--master", default="local[2]", show_default=True, help="The Spark master to run on.")
    return master_option(conf_option(with_spark))


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--conf {text!r} is no setting.", hint="Write it as --conf spark.some.key=value.")
    return key, value
