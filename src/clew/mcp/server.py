"""The MCP server: read-only tools, each a question to `clew.query`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from clew import __version__
from clew.errors import ClewError
from clew.home import Place
from clew.mcp.ancestry import ancestry
from clew.mcp.budget import DEFAULT_TOKENS, FEWEST_TOKENS, MOST_TOKENS, Reply, start_of
from clew.mcp.cells import explanation
from clew.mcp.descriptions import description, diff_reply, search_reply
from clew.mcp.replies import (
    CellReply,
    DescribeReply,
    DiffReply,
    ImpactReply,
    PathReply,
    RunsReply,
    SearchReply,
    UpstreamReply,
    WalkReply,
)
from clew.mcp.runs import one_run, run_description, some_runs
from clew.mcp.walks import impact_reply, path_reply, walk_reply
from clew.query.answers import Answers
from clew.query.graph_answers import GraphAnswers
from clew.query.lineage import Bounds
from clew.query.run_entries import RunKind

INSTRUCTIONS: Final = (
    "Lineage of notebooks and pipelines: where a column came from and where it goes, what a change would reach, what "
    "each run and cell read and made, what it cost, why it failed. Start with `search` or `runs`; ids and names in a "
    "reply can be given back to a tool as they are, and `next_cursor` shows what did not fit."
)

Tokens = Annotated[
    int,
    Field(
        ge=FEWEST_TOKENS, le=MOST_TOKENS, description="About how many tokens the answer may have; lists are cut to fit."
    ),
]
Name = Annotated[
    str,
    Field(
        description="DATASET.COLUMN, a dataset, a job, or the id of a run or a session; of a dataset the end of its"
        " name will do. Ids in other replies are understood as they are."
    ),
]
Column = Annotated[
    str, Field(description="DATASET.COLUMN, as in orders.csv.price; the end of a dataset's name will do.")
]
Session = Annotated[str | None, Field(description="Id of a notebook run, from `runs`; the last run if left out.")]
Cursor = Annotated[str | None, Field(description="`next_cursor` of the reply before, to see what comes after it.")]
Depth = Annotated[int, Field(ge=1, le=100, description="How many hops at most.")]

_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_HITS_A_PAGE = 20


def create_server(index: Place) -> MCPServer[None]:
    """The server over an index, which may be made, or made anew, while it runs."""
    server: MCPServer[None] = MCPServer("clew", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    graph = GraphAnswers(index, is_brief=False)
    _add_names(server, index, graph)
    _add_walks(server, index, graph)
    _add_runs(server, index, graph)
    return server


def _add_names(server: MCPServer[None], index: Place, graph: GraphAnswers) -> None:
    """Finding things, and what is known of them."""

    @server.tool(title="Find by words", annotations=_READS)
    def search(
        words: Annotated[str, Field(description="Words, or beginnings of words; all of them must be found.")],
        cursor: Cursor = None,
        max_tokens: Tokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, SearchReply]:
        """Find jobs and datasets by names, columns, descriptions, tags, code and facets, and a run by its id."""
        return _answered(
            lambda: search_reply(graph.search(words, limit=_HITS_A_PAGE, offset=start_of(cursor)), cursor, max_tokens)
        )

    @server.tool(title="What is known of something", annotations=_READS)
    def describe(
        name: Name | None = None, max_tokens: Tokens = DEFAULT_TOKENS
    ) -> Annotated[CallToolResult, DescribeReply]:
        """Describe a dataset, a job or a run; of a notebook run, its cells with time, memory and errors.

        Without a name, the last notebook run.
        """
        return _answered(lambda: _description(index, graph, name, max_tokens))


def _add_walks(server: MCPServer[None], index: Place, graph: GraphAnswers) -> None:
    """Following lineage, both ways."""

    @server.tool(title="Where it came from", annotations=_READS)
    def upstream(
        name: Name, depth: Depth = 20, cursor: Cursor = None, max_tokens: Tokens = DEFAULT_TOKENS
    ) -> Annotated[CallToolResult, UpstreamReply]:
        """Show where a column came from: its origins, and each step back with the cell, line and code that made it.

        Of a dataset, a job or a run: what is upstream of it.
        """

        def ask() -> Reply:
            meant = graph.meant(name)
            if meant.kind == "column":
                # By its dataset and column, however it was named.
                column = f"{meant.id.partition(':')[2]}.{meant.column}"
                with Answers(index) as answers:
                    return ancestry(answers.upstream(column, depth=depth), max_tokens)
            return walk_reply(graph.walk(name, "upstream", Bounds(depth=depth)), cursor, max_tokens)

        return _answered(ask)

    @server.tool(title="What it went into", annotations=_READS)
    def downstream(
        name: Name, depth: Depth = 20, cursor: Cursor = None, max_tokens: Tokens = DEFAULT_TOKENS
    ) -> Annotated[CallToolResult, WalkReply]:
        """Show what a column, a dataset, a job or a run went into, the nearest first."""
        return _answered(lambda: walk_reply(graph.walk(name, "downstream", Bounds(depth=depth)), cursor, max_tokens))

    @server.tool(title="How one column became another", annotations=_READS)
    def column_path(start: Column, end: Column) -> Annotated[CallToolResult, PathReply]:
        """Show a shortest way of values between two columns, whichever of them is the source."""
        return _answered(lambda: path_reply(graph.column_path(start, end)))

    @server.tool(title="How two datasets or jobs hang together", annotations=_READS)
    def path_between(start: Name, end: Name) -> Annotated[CallToolResult, PathReply]:
        """Show a shortest way along the flow of data between two datasets or jobs, whichever is the source."""
        return _answered(lambda: path_reply(graph.path(start, end)))

    @server.tool(title="What a change would reach", annotations=_READS)
    def impact(
        name: Name, depth: Depth = 20, cursor: Cursor = None, max_tokens: Tokens = DEFAULT_TOKENS
    ) -> Annotated[CallToolResult, ImpactReply]:
        """Show which datasets a change of a column, or of a dataset, would reach: by values, or by a say in them."""
        return _answered(lambda: impact_reply(graph.impact(name, Bounds(depth=depth)), cursor, max_tokens))


def _add_runs(server: MCPServer[None], index: Place, graph: GraphAnswers) -> None:
    """Runs, their cells, and what differs between them."""

    @server.tool(title="Runs", annotations=_READS)
    def runs(
        kind: Annotated[RunKind, Field(description="Which of them.")] = "recent",
        cursor: Cursor = None,
        max_tokens: Tokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, RunsReply]:
        """List runs of notebooks and of other jobs: the newest, those that failed, or those that took longest."""

        def ask() -> Reply:
            with Answers(index) as answers:
                return some_runs(answers, kind, cursor, max_tokens)

        return _answered(ask)

    @server.tool(title="What differs between two runs", annotations=_READS)
    def diff(
        left: Annotated[str, Field(description="Id of a run or a session.")],
        right: Annotated[str, Field(description="Id of a run or a session.")],
        cursor: Cursor = None,
        max_tokens: Tokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, DiffReply]:
        """Show what differs between two runs: state, time, data, columns, lineage and code."""
        return _answered(lambda: diff_reply(graph.run_diff(left, right), cursor, max_tokens))

    @server.tool(title="What a cell did", annotations=_READS)
    def explain_cell(
        cell: Annotated[str, Field(description="Execution id, name, number or cell id of a cell.")],
        session_id: Session = None,
        max_tokens: Tokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, CellReply]:
        """Explain what a cell of a notebook run read and made, column by column, with its code and its error."""

        def ask() -> Reply:
            with Answers(index) as answers:
                return explanation(answers, cell, session_id, max_tokens)

        return _answered(ask)


def _description(index: Place, graph: GraphAnswers, name: str | None, tokens: int) -> Reply:
    with Answers(index) as answers:
        if name is None or answers.is_session(name):
            return run_description(one_run(answers, name), tokens)
    return description(graph.describe(name), tokens)


def _answered(ask: Callable[[], Reply]) -> CallToolResult:
    try:
        reply = ask()
    except ClewError as fault:
        raise ToolError(str(fault)) from fault
    return CallToolResult(
        content=[TextContent(type="text", text=reply.text)], structured_content=reply.data.model_dump(mode="json")
    )
