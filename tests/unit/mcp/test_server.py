"""Tests of the MCP server with the SDK's client: in process, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from clew.cli.commands.servers import mcp_command
from clew.errors import UsageError
from clew.mcp.server import create_server
from clew.query.context import QueryResources, sidecar_path
from clew.server.auth import KeyFile, Scope

TOOLS = set(
    "search describe upstream downstream column_path path_between list_runs diff_runs explain_cell impact".split()
)
TOTAL = "file:/data/totals.parquet.total"
UPSTREAM = """\
file:/data/totals.parquet.total comes from (2): file:/data/orders.csv.price, file:/data/orders.csv.qty
Steps back (4):
← cell 4 save, line 1: orders.to_parquet(path)
orders.total (identity)
← cell 2 compute, line 1: orders['total'] = orders['price'] * orders['qty'] [filtered by orders.status]
- orders.price (transformation)
  ← cell 1 load, line 1: pd.read_csv('orders.csv')
  orders.csv.price (identity)
- orders.qty (transformation)
  ← cell 1 load, line 1: pd.read_csv('orders.csv')
  orders.csv.qty (identity)"""


def call_tool(index: Path, tool: str, **arguments: Any) -> CallToolResult:
    async def run_client() -> CallToolResult:
        async with Client(create_server(index)) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(run_client())


def reply_text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def reply_data(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, reply_text(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


TRAVERSALS: dict[str, dict[str, str]] = {
    "downstream": {"name": "orders.csv"},
    "upstream": {"name": "file:/data/totals.parquet"},
    "impact": {"name": "orders.csv.price"},
    "column_path": {"start": "orders.csv.price", "end": TOTAL},
    "path_between": {"start": "orders.csv", "end": "file:/data/totals.parquet"},
}


@pytest.mark.parametrize(("tool", "arguments"), TRAVERSALS.items(), ids=TRAVERSALS)
def test_answers_without_waiting_for_the_graphs(tool: str, arguments: dict[str, str], shop: Path) -> None:
    without_graphs = call_tool(shop, tool, **arguments)
    assert not [name for name in ("lineage", "columns") if sidecar_path(shop, name).exists()]
    with QueryResources(shop) as resources:
        resources.refresh_caches()
    assert reply_data(call_tool(shop, tool, **arguments)) == reply_data(without_graphs)


def test_all_tools_are_read_only(shop: Path) -> None:
    async def run_client() -> dict[str, Any]:
        async with Client(create_server(shop)) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    tools = asyncio.run(run_client())
    assert tools.keys() == TOOLS
    for tool in tools.values():
        assert tool.annotations.read_only_hint
        assert tool.description
        assert tool.output_schema
        assert tool.name in {"column_path", "path_between"} or "max_tokens" in tool.input_schema["properties"]


def test_list_runs(shop: Path) -> None:
    result = call_tool(shop, "list_runs")
    (run,) = reply_data(result)["runs"]
    assert (run["id"], run["job"], run["state"]) == ("6ac33987", "shop", "FAILED")
    assert reply_text(result).splitlines()[1].startswith("- 6ac33987 shop: FAILED, started ")


def test_describes_a_notebook_run(shop: Path) -> None:
    reply = reply_data(call_tool(shop, "describe"))["notebook_run"]
    assert [cell["cell"] for cell in reply["cells"]] == ["1 load", "2 compute", "3 margin", "4 save"]
    assert [cell["error"] for cell in reply["cells"]] == [None, None, "KeyError: 'cost'", None]
    assert [entry["dataset"] for entry in reply["reads"]] == ["file:/data/orders.csv"]
    assert [entry["dataset"] for entry in reply["writes"]] == ["file:/data/totals.parquet"]
    assert (reply["slowest_cell"], reply["total_cell_ms"], reply["peak_memory_mb"]) == (
        reply["cells"][1]["execution_id"],
        120.0,
        120.0,
    )


@pytest.mark.parametrize("column", ["totals.parquet.total", "/data/totals.parquet.total", TOTAL])
def test_upstream_by_any_name_of_a_column(shop: Path, column: str) -> None:
    result = call_tool(shop, "upstream", name=column)
    assert reply_text(result) == UPSTREAM
    reply = reply_data(result)
    assert reply["origins"] == ["file:/data/orders.csv.price", "file:/data/orders.csv.qty"]
    assert reply["steps"][1] == {
        "column": "marimo:shop/orders.total",
        "sources": [
            {"column": "marimo:shop/orders.price", "transformation": "transformation"},
            {"column": "marimo:shop/orders.qty", "transformation": "transformation"},
        ],
        "indirect_sources": ["filtered by marimo:shop/orders.status"],
        "execution_id": reply["steps"][1]["execution_id"],
        "cell": "2 compute",
        "line": 1,
        "code": "orders['total'] = orders['price'] * orders['qty']",
    }


@pytest.mark.parametrize("cell", ["compute", "2", "comp", "2 compute"])
@pytest.mark.parametrize("session", [{}, {"session_id": "6ac33987"}])
def test_explains_a_cell_by_any_of_its_names(shop: Path, cell: str, session: dict[str, str]) -> None:
    reply = reply_data(call_tool(shop, "explain_cell", cell=cell, **session))
    assert reply["cell"] == "2 compute"
    assert reply["code"] == "compute()"
    assert [operation["code"] for operation in reply["operations"]] == [
        "orders['total'] = orders['price'] * orders['qty']"
    ]
    assert [entry["dataset"] for entry in reply["inputs"]] == ["marimo:shop/orders"]
    assert [entry["dataset"] for entry in reply["outputs"]] == ["marimo:shop/orders"]
    assert reply["new_columns"] == [
        "marimo:shop/orders.total from orders.price (transformation), orders.qty (transformation)"
    ]


def test_finds_a_cell_of_an_earlier_session_by_execution_id(notebook_events: Any) -> None:
    notebook_events.session("aaaa1111", "first").operation("load", "orders@1", {}, code="early()")
    notebook_events.session("bbbb2222", "second").operation("other", "orders@1", {})
    index = notebook_events.index_events()
    (cell,) = reply_data(call_tool(index, "describe", name="aaaa1111"))["notebook_run"]["cells"]
    assert reply_data(call_tool(index, "explain_cell", cell=cell["execution_id"]))["session_id"] == "aaaa1111"
    assert call_tool(index, "explain_cell", cell="load").is_error


def test_ids_of_a_reply_are_accepted_by_other_tools(shop: Path) -> None:
    session = reply_data(call_tool(shop, "list_runs"))["runs"][0]["id"]
    for cell in reply_data(call_tool(shop, "describe", name=session))["notebook_run"]["cells"]:
        assert reply_data(call_tool(shop, "explain_cell", cell=cell["execution_id"]))["cell"] == cell["cell"]
    for step in reply_data(call_tool(shop, "upstream", name=TOTAL))["steps"]:
        assert reply_data(call_tool(shop, "upstream", name=step["column"]))["start"] == step["column"]
        assert reply_data(call_tool(shop, "explain_cell", cell=step["execution_id"]))["cell"] == step["cell"]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("upstream", {"name": "totals.parquet.totel"}, "Did you mean total?"),
        ("upstream", {"name": "total.parquet.total"}, "Did you mean totals.parquet"),
        ("upstream", {"name": "total"}, "Did you mean totals.parquet?"),
        ("describe", {"name": "6ac33988"}, "Did you mean 6ac33987?"),
        ("explain_cell", {"cell": "computer"}, "Did you mean compute"),
        ("explain_cell", {"cell": "compute", "session_id": "nowhere"}, "6ac33987"),
        ("explain_cell", {}, "Field required"),
        ("list_runs", {"max_tokens": 1}, "greater than or equal to 300"),
        ("list_runs", {"cursor": "next"}, "Invalid cursor 'next'"),
        ("list_runs", {"selection": "odd"}, "Input should be 'recent', 'failed' or 'slow'"),
        ("downstream", {"name": "orders.csv.prise"}, "Did you mean price"),
        ("diff_runs", {"left": "6ac33987", "right": "6ac33986"}, "Did you mean 6ac33987?"),
    ],
)
def test_user_error_has_a_hint(shop: Path, tool: str, arguments: dict[str, Any], message: str) -> None:
    result = call_tool(shop, tool, **arguments)
    assert result.is_error
    assert message in reply_text(result)


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_missing_index_error_has_a_hint(tmp_path: Path, tool: str) -> None:
    name_argument = {"name": "a.b"}
    ends = {"start": "a.b", "end": "c.d"}
    arguments_of = {
        "upstream": name_argument,
        "downstream": name_argument,
        "impact": name_argument,
        "column_path": ends,
        "path_between": ends,
        "explain_cell": {"cell": "a"},
        "search": {"query": "a"},
        "diff_runs": {"left": "a", "right": "b"},
    }
    result = call_tool(tmp_path / "none.sqlite", tool, **arguments_of.get(tool, {}))
    assert result.is_error
    assert "clew demo" in reply_text(result)


def test_an_empty_index_has_no_runs(notebook_events: Any) -> None:
    empty = notebook_events.index_events()
    assert reply_data(call_tool(empty, "list_runs")) == {"runs": [], "total": 0, "next_cursor": None}
    assert "clew demo" in reply_text(call_tool(empty, "list_runs"))
    assert "No notebook run was recorded yet." in reply_text(call_tool(empty, "describe"))


@pytest.mark.parametrize("tokens", [300, 1000, 4000, 50_000])
def test_describe_fits_the_token_budget(large: Path, tokens: int) -> None:
    result = call_tool(large, "describe", max_tokens=tokens)
    structured = reply_data(result)
    reply = structured["notebook_run"]
    assert (
        len(reply_text(result)) + len(json.dumps(structured, separators=(",", ":"), ensure_ascii=False))
    ) // 3 <= tokens
    assert reply["cell_total"] == 200
    if tokens == 50_000:
        assert len(reply["cells"]) == 200
        assert "shown" not in reply_text(result)
    else:
        assert 0 < len(reply["cells"]) < 200
        assert f"shown {len(reply['cells'])} of 200" in reply_text(result)


def test_truncates_the_farthest_upstream_steps(shop: Path) -> None:
    result = call_tool(shop, "upstream", name=TOTAL, max_tokens=400)
    reply = reply_data(result)
    assert 0 < len(reply["steps"]) < reply["step_total"] == 4
    assert reply["steps"][0]["column"] == TOTAL
    assert "… further back: upstream of marimo:shop/orders." in reply_text(result)


def test_serves_over_stdio(shop: Path) -> None:
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "clew", "mcp", "--home", str(shop.parent)])

    async def run_client() -> CallToolResult:
        async with Client(parameters) as client:
            return await client.call_tool("upstream", {"name": "totals.parquet.total"})

    assert reply_text(asyncio.run(run_client())) == UPSTREAM


def test_serves_over_http(shop: Path) -> None:
    command = [sys.executable, "-m", "clew", "mcp", "--http", "--port", "0", "--home", str(shop.parent)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            (address,) = re.findall(r"http://\S+/mcp", server.stderr.readline())

            async def run_client() -> CallToolResult:
                async with Client(address) as client:
                    return await client.call_tool("upstream", {"name": "totals.parquet.total"})

            assert reply_text(asyncio.run(run_client())) == UPSTREAM
        finally:
            server.terminate()
            server.communicate()


def test_sigint_stops_the_server(shop: Path) -> None:
    command = [sys.executable, "-m", "clew", "mcp", "--home", str(shop.parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=20) == -signal.SIGINT


def test_serves_over_http_with_keys(shop: Path) -> None:
    key = KeyFile(shop.parent / "keys.json").add("agent", [Scope.READ])
    command = [sys.executable, "-m", "clew", "mcp", "--http", "--require-key", "--port", "0", "--home"]
    with subprocess.Popen([*command, str(shop.parent)], stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            (address,) = re.findall(r"http://\S+/mcp", server.stderr.readline())
            ping: Any = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            accept = {"accept": "application/json, text/event-stream"}
            statuses = [
                requests.post(address, json=ping, headers={**accept, **headers}, timeout=20).status_code
                for headers in ({}, {"authorization": "Bearer clew_wrong"}, {"authorization": f"Bearer {key}"})
            ]
            assert statuses == [401, 401, 200]
            health = address.removesuffix("/mcp") + "/healthz"
            assert requests.get(health, timeout=20).status_code == 200
        finally:
            server.terminate()
            server.communicate()


@pytest.mark.parametrize("options", [["--port", "1"], ["--require-key"]])
def test_options_of_http_require_http(options: list[str], shop: Path) -> None:
    result = CliRunner().invoke(mcp_command, [*options, "--home", str(shop.parent)])
    assert isinstance(result.exception, UsageError)
    assert f"{options[0]} requires --http" in str(result.exception)


def test_search_returns_ids_for_other_tools(shop: Path) -> None:
    hits = reply_data(call_tool(shop, "search", query="totals"))["hits"]
    assert hits[0]["id"] == "dataset:file:/data/totals.parquet"
    dataset = reply_data(call_tool(shop, "describe", name=hits[0]["id"]))["dataset"]
    assert [column["name"] for column in dataset["columns"]] == ["total"]
    assert dataset["written_by"] == ["job:marimo:shop/save/dataframe_save"]


def test_downstream_and_upstream_of_a_dataset(shop: Path) -> None:
    downstream = reply_data(call_tool(shop, "downstream", name="orders.csv"))
    assert downstream["nodes"][-1]["id"] == "dataset:file:/data/totals.parquet"
    upstream = reply_data(call_tool(shop, "upstream", name="totals.parquet"))
    assert "dataset:file:/data/orders.csv" in {node["id"] for node in upstream["nodes"]}
    assert [node["hops"] for node in upstream["nodes"]] == sorted(node["hops"] for node in upstream["nodes"])


def test_paths(shop: Path) -> None:
    column = reply_data(call_tool(shop, "column_path", start="orders.csv.qty", end="totals.parquet.total"))
    assert column["steps"][0] == "datasetField:file:/data/orders.csv:qty"
    assert column["steps"][-1] == "→ datasetField:file:/data/totals.parquet:total (transformation)"
    path = reply_data(call_tool(shop, "path_between", start="totals.parquet", end="orders.csv"))
    assert (path["is_found"], path["steps"][0]) == (True, "dataset:file:/data/orders.csv")
    no_path = call_tool(shop, "column_path", start="orders.csv.qty", end="orders.csv.price")
    assert (reply_data(no_path)["is_found"], reply_text(no_path)) == (False, "No path in either direction.")


def test_impact(shop: Path) -> None:
    reply = reply_data(call_tool(shop, "impact", name="orders.csv.price"))
    (affected,) = reply["affected"]
    assert (affected["id"], affected["is_direct"], affected["columns"]) == (
        "dataset:file:/data/totals.parquet",
        True,
        ["total"],
    )


def test_impact_in_a_notebook_that_writes_no_file(notebook_events: Any) -> None:
    session = notebook_events.session(notebook="shop/eda")
    session.operation("load", "df@1", {"price": [("orders.csv", "price")]})
    reply = call_tool(notebook_events.index_events(), "impact", name="orders.csv.price")
    data = reply_data(reply)
    assert ([entry["id"] for entry in data["affected"]], data["is_in_memory"]) == (
        ["dataset:marimo:shop/eda/df@1"],
        True,
    )
    assert reply_text(reply).startswith(
        "Changing datasetField:file:/data/orders.csv:price affects no file or table, only"
    )


def test_describes_a_job_and_a_run(shop: Path) -> None:
    job = reply_data(call_tool(shop, "describe", name="job:marimo:shop/save/dataframe_save"))["job"]
    assert (job["writes"], job["latest_state"]) == (["dataset:file:/data/totals.parquet"], "COMPLETED")
    run = reply_data(call_tool(shop, "describe", name=f"run:{job['latest_run']}"))["run"]
    assert (run["job"], run["writes"]) == (job["id"], job["writes"])


def test_diff_runs(notebook_events: Any) -> None:
    for session_id, column in (("aaaa1111", "price"), ("bbbb2222", "tax")):
        session = notebook_events.session(session_id)
        session.operation("load", "sales.parquet", {column: [("orders.csv", column)]})
    index = notebook_events.index_events()
    runs = [reply_data(call_tool(index, "describe", name="job:marimo:orders/load/dataframe_load"))["job"]["latest_run"]]
    jobs = [
        hit for hit in reply_data(call_tool(index, "downstream", name="orders.csv"))["nodes"] if hit["kind"] == "job"
    ]
    assert len(runs) == len(jobs) == 1
    same = call_tool(index, "diff_runs", left=runs[0], right=runs[0])
    assert (reply_text(same), reply_data(same)["lines"]) == ("No differences.", [])


def test_cursor_pages_through_the_list(large: Path) -> None:
    node_ids: list[str] = []
    cursor: str | None = None
    for _ in range(200):
        reply = reply_data(call_tool(large, "downstream", name="orders.csv", max_tokens=1000, cursor=cursor))
        node_ids += [node["id"] for node in reply["nodes"]]
        cursor = reply["next_cursor"]
        if cursor is None:
            break
    assert len(node_ids) == len(set(node_ids)) == reply["node_total"]
    assert reply["node_total"] == 200


ODD_NAMES = [
    "",
    " ",
    "nothing",
    "a" * 50_000,
    "dataset:",
    "dataset:x:y",
    "run:abc",
    "'; drop table runs; --",
    "\0",
    "😀",
    "..",
]


def test_odd_names_get_short_errors_from_every_tool(shop: Path) -> None:
    async def run_client() -> list[CallToolResult]:
        async with Client(create_server(shop)) as client:
            tools = (await client.list_tools()).tools
            required_of = {tool.name: tool.input_schema.get("required", []) for tool in tools}
            return [
                await client.call_tool(tool, dict.fromkeys(names, name))
                for tool, names in required_of.items()
                for name in (ODD_NAMES if names else ())
            ]

    for result in asyncio.run(run_client()):
        assert len(reply_text(result)) < 1_000
        assert "Traceback" not in reply_text(result)
        assert result.is_error or "No hits." in reply_text(result)


def test_cursor_past_the_end(shop: Path) -> None:
    result = call_tool(shop, "list_runs", cursor="999")
    assert not result.is_error
    assert "the cursor is past the end" in reply_text(result)
