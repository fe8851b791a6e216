"""The tools, asked by the SDK's own client: in process, and once as an agent would start them."""

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
from click.testing import CliRunner
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from clew.cli.commands.servers import mcp_command
from clew.errors import UsageError
from clew.mcp.server import create_server
from clew.query.context import QueryResources, sidecar_path

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


def asked(index: Path, tool: str, **arguments: Any) -> CallToolResult:
    async def ask() -> CallToolResult:
        async with Client(create_server(index)) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(ask())


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def data(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


WALKS: dict[str, dict[str, str]] = {
    "downstream": {"name": "orders.csv"},
    "upstream": {"name": "file:/data/totals.parquet"},
    "impact": {"name": "orders.csv.price"},
    "column_path": {"start": "orders.csv.price", "end": TOTAL},
    "path_between": {"start": "orders.csv", "end": "file:/data/totals.parquet"},
}


@pytest.mark.parametrize(("tool", "arguments"), WALKS.items(), ids=WALKS)
def test_no_question_waits_for_the_graphs(tool: str, arguments: dict[str, str], shop: Path) -> None:
    stepped = asked(shop, tool, **arguments)
    assert not [what for what in ("lineage", "columns") if sidecar_path(shop, what).exists()]
    with QueryResources(shop) as holdings:
        holdings.refresh_caches()
    assert data(asked(shop, tool, **arguments)) == data(stepped)


def test_all_tools_only_read(shop: Path) -> None:
    async def ask() -> dict[str, Any]:
        async with Client(create_server(shop)) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    tools = asyncio.run(ask())
    assert tools.keys() == TOOLS
    for tool in tools.values():
        assert tool.annotations.read_only_hint
        assert tool.description
        assert tool.output_schema
        assert tool.name in {"column_path", "path_between"} or "max_tokens" in tool.input_schema["properties"]


def test_runs(shop: Path) -> None:
    result = asked(shop, "list_runs")
    (run,) = data(result)["runs"]
    assert (run["id"], run["job"], run["state"]) == ("6ac33987", "shop", "FAILED")
    assert text(result).splitlines()[1].startswith("- 6ac33987 shop: FAILED, started ")


def test_a_run_is_described(shop: Path) -> None:
    reply = data(asked(shop, "describe"))["notebook_run"]
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
def test_upstream_of_a_column_however_it_is_named(shop: Path, column: str) -> None:
    result = asked(shop, "upstream", name=column)
    assert text(result) == UPSTREAM
    reply = data(result)
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
def test_a_cell_is_explained_however_it_is_named(shop: Path, cell: str, session: dict[str, str]) -> None:
    reply = data(asked(shop, "explain_cell", cell=cell, **session))
    assert reply["cell"] == "2 compute"
    assert reply["code"] == "compute()"
    assert [one["code"] for one in reply["operations"]] == ["orders['total'] = orders['price'] * orders['qty']"]
    assert [entry["dataset"] for entry in reply["inputs"]] == ["marimo:shop/orders"]
    assert [entry["dataset"] for entry in reply["outputs"]] == ["marimo:shop/orders"]
    assert reply["new_columns"] == [
        "marimo:shop/orders.total from orders.price (transformation), orders.qty (transformation)"
    ]


def test_an_earlier_run_is_found_by_the_execution_id(story: Any) -> None:
    story.session("aaaa1111", "first").operation("load", "orders@1", {}, code="early()")
    story.session("bbbb2222", "second").operation("other", "orders@1", {})
    index = story.tell()
    (early,) = data(asked(index, "describe", name="aaaa1111"))["notebook_run"]["cells"]
    assert data(asked(index, "explain_cell", cell=early["execution_id"]))["session_id"] == "aaaa1111"
    assert asked(index, "explain_cell", cell="load").is_error


def test_ids_of_one_reply_are_understood_by_the_other_tools(shop: Path) -> None:
    session = data(asked(shop, "list_runs"))["runs"][0]["id"]
    for cell in data(asked(shop, "describe", name=session))["notebook_run"]["cells"]:
        assert data(asked(shop, "explain_cell", cell=cell["execution_id"]))["cell"] == cell["cell"]
    for step in data(asked(shop, "upstream", name=TOTAL))["steps"]:
        assert data(asked(shop, "upstream", name=step["column"]))["start"] == step["column"]
        assert data(asked(shop, "explain_cell", cell=step["execution_id"]))["cell"] == step["cell"]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
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
def test_a_mistake_is_told_with_a_way_out(shop: Path, tool: str, arguments: dict[str, Any], said: str) -> None:
    result = asked(shop, tool, **arguments)
    assert result.is_error
    assert said in text(result)


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_without_an_index_every_tool_says_how_it_is_made(tmp_path: Path, tool: str) -> None:
    named = {"name": "a.b"}
    ends = {"start": "a.b", "end": "c.d"}
    needed = {
        "upstream": named,
        "downstream": named,
        "impact": named,
        "column_path": ends,
        "path_between": ends,
        "explain_cell": {"cell": "a"},
        "search": {"query": "a"},
        "diff_runs": {"left": "a", "right": "b"},
    }
    result = asked(tmp_path / "none.sqlite", tool, **needed.get(tool, {}))
    assert result.is_error
    assert "clew demo" in text(result)


def test_an_empty_index_has_no_runs(story: Any) -> None:
    empty = story.tell()
    assert data(asked(empty, "list_runs")) == {"runs": [], "total": 0, "next_cursor": None}
    assert "clew demo" in text(asked(empty, "list_runs"))
    assert "No runs are recorded yet." in text(asked(empty, "describe"))


@pytest.mark.parametrize("tokens", [300, 1000, 4000, 50_000])
def test_a_reply_keeps_to_its_budget(large: Path, tokens: int) -> None:
    result = asked(large, "describe", max_tokens=tokens)
    whole = data(result)
    reply = whole["notebook_run"]
    assert (len(text(result)) + len(json.dumps(whole, separators=(",", ":"), ensure_ascii=False))) // 3 <= tokens
    assert reply["cell_total"] == 200
    if tokens == 50_000:
        assert len(reply["cells"]) == 200
        assert "shown" not in text(result)
    else:
        assert 0 < len(reply["cells"]) < 200
        assert f"shown {len(reply['cells'])} of 200" in text(result)


def test_the_way_back_is_cut_from_its_far_end(shop: Path) -> None:
    result = asked(shop, "upstream", name=TOTAL, max_tokens=400)
    reply = data(result)
    assert 0 < len(reply["steps"]) < reply["step_total"] == 4
    assert reply["steps"][0]["column"] == TOTAL
    assert "… further back: upstream of marimo:shop/orders." in text(result)


def test_an_agent_starts_it_over_stdio(shop: Path) -> None:
    started = StdioServerParameters(command=sys.executable, args=["-m", "clew", "mcp", "--home", str(shop.parent)])

    async def ask() -> CallToolResult:
        async with Client(started) as client:
            return await client.call_tool("upstream", {"name": "totals.parquet.total"})

    assert text(asyncio.run(ask())) == UPSTREAM


def test_an_agent_reaches_it_over_http(shop: Path) -> None:
    command = [sys.executable, "-m", "clew", "mcp", "--http", "--port", "0", "--home", str(shop.parent)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            (address,) = re.findall(r"http://\S+/mcp", server.stderr.readline())

            async def ask() -> CallToolResult:
                async with Client(address) as client:
                    return await client.call_tool("upstream", {"name": "totals.parquet.total"})

            assert text(asyncio.run(ask())) == UPSTREAM
        finally:
            server.terminate()
            server.communicate()


def test_it_can_be_stopped_while_it_waits(shop: Path) -> None:
    started = [sys.executable, "-m", "clew", "mcp", "--home", str(shop.parent)]
    with subprocess.Popen(started, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=20) == -signal.SIGINT


def test_a_port_without_http_is_a_mistake(shop: Path) -> None:
    result = CliRunner().invoke(mcp_command, ["--port", "1", "--home", str(shop.parent)])
    assert isinstance(result.exception, UsageError)
    assert "requires --http" in str(result.exception)


def test_search_finds_ids_that_others_understand(shop: Path) -> None:
    hits = data(asked(shop, "search", query="totals"))["hits"]
    assert hits[0]["id"] == "dataset:file:/data/totals.parquet"
    described = data(asked(shop, "describe", name=hits[0]["id"]))["dataset"]
    assert [column["name"] for column in described["columns"]] == ["total"]
    assert described["written_by"] == ["job:marimo:shop/save/dataframe_save"]


def test_downstream_and_upstream_of_a_dataset(shop: Path) -> None:
    down = data(asked(shop, "downstream", name="orders.csv"))
    assert down["nodes"][-1]["id"] == "dataset:file:/data/totals.parquet"
    up = data(asked(shop, "upstream", name="totals.parquet"))
    assert "dataset:file:/data/orders.csv" in {node["id"] for node in up["nodes"]}
    assert [node["hops"] for node in up["nodes"]] == sorted(node["hops"] for node in up["nodes"])


def test_paths(shop: Path) -> None:
    column = data(asked(shop, "column_path", start="orders.csv.qty", end="totals.parquet.total"))
    assert column["steps"][0] == "datasetField:file:/data/orders.csv:qty"
    assert column["steps"][-1] == "→ datasetField:file:/data/totals.parquet:total (transformation)"
    between = data(asked(shop, "path_between", start="totals.parquet", end="orders.csv"))
    assert (between["is_found"], between["steps"][0]) == (True, "dataset:file:/data/orders.csv")
    none = asked(shop, "column_path", start="orders.csv.qty", end="orders.csv.price")
    assert (data(none)["is_found"], text(none)) == (False, "No path in either direction.")


def test_impact(shop: Path) -> None:
    reply = data(asked(shop, "impact", name="orders.csv.price"))
    (affected,) = reply["affected"]
    assert (affected["id"], affected["is_direct"], affected["columns"]) == (
        "dataset:file:/data/totals.parquet",
        True,
        ["total"],
    )


def test_a_job_and_a_run_are_described(shop: Path) -> None:
    job = data(asked(shop, "describe", name="job:marimo:shop/save/dataframe_save"))["job"]
    assert (job["writes"], job["latest_state"]) == (["dataset:file:/data/totals.parquet"], "COMPLETED")
    run = data(asked(shop, "describe", name=f"run:{job['latest_run']}"))["run"]
    assert (run["job"], run["writes"]) == (job["id"], job["writes"])


def test_a_diff(story: Any) -> None:
    for session_id, column in (("aaaa1111", "price"), ("bbbb2222", "tax")):
        session = story.session(session_id)
        session.operation("load", "sales.parquet", {column: [("orders.csv", column)]})
    index = story.tell()
    runs = [data(asked(index, "describe", name="job:marimo:orders/load/dataframe_load"))["job"]["latest_run"]]
    other = [hit for hit in data(asked(index, "downstream", name="orders.csv"))["nodes"] if hit["kind"] == "job"]
    assert len(runs) == len(other) == 1
    same = asked(index, "diff_runs", left=runs[0], right=runs[0])
    assert (text(same), data(same)["lines"]) == ("No differences.", [])


def test_a_cursor_leads_through_all_of_a_list(large: Path) -> None:
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(200):
        reply = data(asked(large, "downstream", name="orders.csv", max_tokens=1000, cursor=cursor))
        seen += [node["id"] for node in reply["nodes"]]
        cursor = reply["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == reply["node_total"]
    assert reply["node_total"] == 200


ODD = [
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


def test_odd_names_get_short_answers_from_every_tool(shop: Path) -> None:
    async def ask() -> list[CallToolResult]:
        async with Client(create_server(shop)) as client:
            tools = (await client.list_tools()).tools
            needed = {tool.name: tool.input_schema.get("required", []) for tool in tools}
            return [
                await client.call_tool(tool, dict.fromkeys(names, odd))
                for tool, names in needed.items()
                for odd in (ODD if names else ())
            ]

    for result in asyncio.run(ask()):
        assert len(text(result)) < 1_000
        assert "Traceback" not in text(result)
        assert result.is_error or "No hits." in text(result)


def test_a_cursor_of_a_list_that_was_longer_is_past_the_end(shop: Path) -> None:
    told = asked(shop, "list_runs", cursor="999")
    assert not told.is_error
    assert "the cursor is past the end" in text(told)
