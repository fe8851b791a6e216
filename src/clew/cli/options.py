"""Options shared by several commands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from clew.cli.output import print_json
from clew.config import SETTINGS, parse_age, resolve_setting
from clew.data_dir import DataDir
from clew.errors import UsageError
from clew.events.facets import FacetOrder

# The same as that of the API.
LIMIT: Final = click.IntRange(1, 10_000)

Command = Callable[..., Any]


def home_option(command: Command) -> Command:
    """Add `--home DIR`; the command receives a DataDir."""
    return _home_flag_option(_with_data_dir(command))


def index_option(command: Command) -> Command:
    """Add `--home DIR` and `--index URL`; the command receives a DataDir."""
    return _home_flag_option(_index_flag_option(_with_data_dir(command)))


def fresh_index_option(command: Command) -> Command:
    """Do the same as `index_option`, and ingest new events of notebooks in the data directory first."""

    @wraps(command)
    def with_new_events(*args: Any, home: DataDir, **kwargs: Any) -> Any:
        if isinstance(home.index, Path) and isinstance(home.lake, Path) and home.streams.is_dir():
            from clew.cli.commands.pipeline import ingest_new_events

            ingest_new_events(home)
        return command(*args, home=home, **kwargs)

    return index_option(with_new_events)


def lake_option(command: Command) -> Command:
    """Add `--home DIR`, `--lake PATH|URL` and `--index URL`; the command receives a DataDir."""

    @wraps(command)
    def with_lake(*args: Any, home: DataDir, **kwargs: Any) -> Any:
        from clew.lake.storage import translate_storage_errors

        with translate_storage_errors(home.lake):
            return command(*args, home=home, **kwargs)

    help_text = (
        "Lake directory or URL (s3://, gs:// or az://bucket/prefix). Default: CLEW_LAKE, or the directory lake below"
        " --home."
    )
    flag_option = click.option("--lake", metavar="PATH|URL", default=None, help=help_text)
    return _home_flag_option(flag_option(_index_flag_option(_with_data_dir(with_lake))))


def _with_data_dir(command: Command) -> Command:
    @wraps(command)
    def with_data_dir(
        *args: Any, home: str | None, lake: str | None = None, index: str | None = None, **kwargs: Any
    ) -> Any:
        return command(*args, home=DataDir.find(home, lake, index), **kwargs)

    return with_data_dir


json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def json_option(
    print_text: Callable[[Any], object], exit_code: Callable[[Any], int] = lambda _: 0
) -> Callable[[Command], Command]:
    """Add `--json`. The command returns its result, which is printed as JSON or by `print_text`."""

    def with_option(command: Command) -> Command:
        @wraps(command)
        def with_json(*args: Any, as_json: bool, **kwargs: Any) -> None:
            result = command(*args, **kwargs)
            if as_json:
                print_json(result)
            else:
                print_text(result)
            if code := exit_code(result):
                sys.exit(code)

        return json_flag(with_json)

    return with_option


def spark_options(command: Command) -> Command:
    """Add `--master` and `--conf`; the command receives `master` and a dictionary `conf`."""

    @wraps(command)
    def with_spark(*args: Any, conf: tuple[str, ...], **kwargs: Any) -> Any:
        return command(*args, conf=dict(map(_parse_conf, conf)), **kwargs)

    conf_option = click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark setting; may be repeated.")
    master_option = click.option(
        "--master",
        default=lambda: resolve_setting("master").value,
        show_default=str(SETTINGS["master"].default),
        help="Spark master URL.",
    )
    return master_option(conf_option(with_spark))


def kafka_options(command: Command) -> Command:
    """Add `--kafka`, `--topic` and `--kafka-config`; the command receives `kafka`, a KafkaConfig or None."""

    @wraps(command)
    def with_kafka(
        *args: Any, brokers: str | None, topic: str | None, kafka_config: tuple[str, ...], **kwargs: Any
    ) -> Any:
        if brokers is None:
            if topic or kafka_config:
                raise UsageError("--topic and --kafka-config require --kafka.", hint="Pass --kafka HOST:PORT as well.")
            return command(*args, kafka=None, **kwargs)
        from clew.kafka.config import KafkaConfig

        file = resolve_setting("kafka_config").value
        options = ((file,) if file else ()) + kafka_config
        return command(*args, kafka=KafkaConfig.from_options(brokers, topic, options), **kwargs)

    config_option = click.option(
        "--kafka-config",
        multiple=True,
        metavar="KEY=VALUE|FILE",
        help="Kafka client setting, such as security.protocol=SASL_SSL, or a properties file; may be repeated.",
    )
    topic_option = click.option("--topic", metavar="NAME", help="Topic of --kafka.")
    brokers_option = click.option(
        "--kafka", "brokers", metavar="BROKERS", help="Kafka brokers as host:port, separated by commas. Needs --topic."
    )
    return brokers_option(topic_option(config_option(with_kafka)))


def metrics_options(command: Command) -> Command:
    """Add `--metrics-port` and `--metrics-host`."""
    port_option = click.option(
        "--metrics-port", type=int, help="Serve /metrics, /healthz and /readyz on this port; 0 picks a free one."
    )
    host_option = click.option(
        "--metrics-host", default="127.0.0.1", show_default=True, help="Address to serve metrics on."
    )
    return port_option(host_option(command))


def require_age(text: str) -> timedelta:
    """Parse an age such as `90d` or `36h`."""
    age = parse_age(text)
    if age is None:
        raise UsageError(f"Invalid age {text!r}.", hint="Use 90d for days, 36h for hours, or 30m for minutes.")
    return age


def _home_flag_option(command: Command) -> Command:
    help_text = "Data directory. Default: CLEW_HOME, the nearest .clew in a parent directory, or ~/.clew."
    return click.option("--home", type=click.Path(file_okay=True), default=None, help=help_text)(command)


def _index_flag_option(command: Command) -> Command:
    help_text = "postgresql:// URL of the index. Default: CLEW_INDEX, or a SQLite file below --home."
    return click.option("--index", metavar="URL", default=None, help=help_text)(command)


def _parse_conf(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"Invalid --conf {text!r}.", hint="Use --conf spark.some.key=value.")
    return key, value


frames_option = click.option("--all", "include_frames", is_flag=True, help="Include in-memory DataFrames.")


def limits_options(default_limit: int, noun: str) -> Callable[[Command], Command]:
    """Add `--depth` and `--limit`; the command receives `limits`."""

    def with_options(command: Command) -> Command:
        @wraps(command)
        def with_limits(*args: Any, depth: int, limit: int, **kwargs: Any) -> Any:
            from clew.query.lineage import TraversalLimits

            return command(*args, limits=TraversalLimits(depth, limit), **kwargs)

        depth_option = click.option(
            "--depth", type=click.IntRange(1, 100), default=20, show_default=True, help="Maximum number of hops."
        )
        help_text = f"Maximum number of {noun}."
        limit_option = click.option("--limit", type=LIMIT, default=default_limit, show_default=True, help=help_text)
        return depth_option(limit_option(with_limits))

    return with_options


def view_options(command: Command) -> Command:
    """Add `--roll-up` and `--all`; the command receives `view`."""

    @wraps(command)
    def with_view(*args: Any, roll_up: Any, include_frames: bool, **kwargs: Any) -> Any:
        from clew.query.graph.view import ViewOptions

        return command(*args, view=ViewOptions(roll_up=roll_up, include_frames=include_frames), **kwargs)

    help_text = "Group jobs by their parent or root job (for a notebook: by cell, or by notebook)."
    choice = click.Choice(("none", "parent", "root"))
    roll_up_option = click.option("--roll-up", type=choice, default="none", show_default=True, help=help_text)
    return roll_up_option(frames_option(with_view))


_ORDERS = {order.option: order for order in FacetOrder}


def facet_order_option(extra_help: str) -> Callable[[Command], Command]:
    """Add `--facet-order`; the command receives a FacetOrder or None."""

    def parse(_: click.Context, __: click.Parameter, value: str | None) -> FacetOrder | None:
        return None if value is None else _ORDERS[value]

    help_text = (
        f"Which facet wins when several have the same name: the last received, or the last by event time. {extra_help}"
    )
    return click.option("--facet-order", type=click.Choice(list(_ORDERS)), callback=parse, help=help_text)
