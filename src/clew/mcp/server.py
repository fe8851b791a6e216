"""MCP server with read-only lineage tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from clew import __version__
from clew.data_dir import IndexLocation, LakeLocation
from clew.errors import ClewError
from clew.mcp.describe_tools import (
    describe_reply,
    diff_reply,
    explain_cell_reply,
    notebook_run_reply,
    runs_reply,
    search_reply,
)
from clew.mcp.lineage_tools import column_upstream_reply, impact_reply, path_reply, traversal_reply
from clew.mcp.paging import DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS, ToolReply, parse_cursor
from clew.mcp.schemas import (
    CellReply,
    DescribeReply,
    DiffReply,
    ImpactReply,
    PathReply,
    RunsReply,
    SearchReply,
    TraversalReply,
    UpstreamReply,
)
from clew.query.entities.runs import RunSelection
from clew.query.lineage import TraversalLimits
from clew.query.model import LineageStep
from clew.query.service import LineageService

INSTRUCTIONS: Final = (
    "Data lineage of notebooks and pipelines: upstream and downstream of columns, datasets, jobs and runs; impact of a "
    "change; inputs, outputs, duration, memory and errors of runs and notebook cells. Start with `search` or "
    "`list_runs`. Ids and names in replies are valid arguments of all tools. If a reply has a `next_cursor`, pass it "
    "as `cursor` to get the next page."
)

Tokens = Annotated[
    int,
    Field(
        ge=MIN_TOKENS,
        le=MAX_TOKENS,
        description="Approximate maximum size of the reply in tokens; longer lists are cut.",
    ),
]
Name = Annotated[
    str,
    Field(
        description="DATASET.COLUMN, a dataset, a job, a run id or a session id. A unique suffix of a dataset name is"
        " enough. Ids from other replies are accepted."
    ),
]
Column = Annotated[
    str, Field(description="DATASET.COLUMN, for example orders.csv.price. A unique suffix of a dataset name is enough.")
]
Session = Annotated[
    str | None, Field(description="Session id of a notebook run, from `list_runs`. Default: the latest run.")
]
Cursor = Annotated[str | None, Field(description="`next_cursor` of the previous reply, to get the next page.")]
Depth = Annotated[int, Field(ge=1, le=100, description="Maximum number of hops.")]

_READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_HITS_PER_PAGE = 20


def create_server(index: IndexLocation, lake: LakeLocation | None = None) -> MCPServer[None]:
    """Create the server for an index, which may be created or rebuilt while it runs, and its lake."""
    server: MCPServer[None] = MCPServer("clew", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    lineage = LineageService.open(index, lake, is_one_shot=False)
    _add_search_tools(server, lineage)
    _add_lineage_tools(server, lineage)
    _add_run_tools(server, lineage)
    return server


def _add_search_tools(server: MCPServer[None], lineage: LineageService) -> None:
    """Add the tools `search` and `describe`."""

    @server.tool(title="Search jobs and datasets", annotations=_READ_ONLY)
    def search(
        query: Annotated[str, Field(description="Words or prefixes of words; all must match. Or a run id.")],
        cursor: Cursor = None,
        max_tokens: Tokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, SearchReply]:
        """Search jobs and datasets by name, column, description, tag, code and facet, or a run by its id."""
        return _tool_result(
            lambda: search_reply(
                lineage.search(query, limit=_HITS_PER_PAGE, offset=parse_cursor(cursor)), cursor, max_tokens
            )
        )

    @server.tool(title="Describe a dataset, job or run", annotations=_READ_ONLY)
    def describe(
        name: Name | None = None, max_tokens: Tokens = DEFAULT_TOKENS
    ) -> Annotated[CallToolResult, DescribeReply]:
        """Describe a dataset, a job or a run. For a notebook run: its cells with duration, memory and errors.

        Without a name: the latest notebook run.
        """
        return _tool_result(lambda: _describe(lineage, name, max_tokens))


def _add_lineage_tools(server: MCPServer[None], lineage: LineageService) -> None:
    """Add the tools that traverse lineage."""

    @server.tool(title="Upstream lineage", annotations=_READ_ONLY)
    def upstream(
        name: Name, depth: Depth = 20, cursor: Cursor = None, max_tokens: Tokens = DEFAULT_TOKENS
    ) -> Annotated[CallToolResult, UpstreamReply]:
        """Show the upstream lineage of a column: its origins, and each step with its cell, line and code.

        For a dataset, a job or a run: the nodes upstream of it.
        """

        def build_reply() -> ToolReply:
            result = lineage.upstream(name, TraversalLimits(depth=depth))
            if isinstance(result, LineageStep):
                return column_upstream_reply(result, max_tokens)
            return traversal_reply(result, cursor, max_tokens)

        return _tool_result(build_reply)

    @server.tool(title="Downstream lineage", annotations=_READ_ONLY)
    def downstream(
        name: Name, depth: Depth = 20, cursor: Cursor = None, max_tokens: Tokens = DEFAULT_TOKENS
    ) -> Annotated[CallToolResult, TraversalReply]:
        """Show the downstream lineage of a column, a dataset, a job or a run, nearest first."""
        return _tool_result(
            lambda: traversal_reply(
                lineage.traverse(name, "downstream", TraversalLimits(depth=depth)), cursor, max_tokens
            )
        )

    @server.tool(title="Path between two columns", annotations=_READ_ONLY)
    def column_path(start: Column, end: Column) -> Annotated[CallToolResult, PathReply]:
        """Show a shortest lineage path between two columns, in either direction."""
        return _tool_result(lambda: path_reply(lineage.find_path(start, end)))

    @server.tool(title="Path between two datasets or jobs", annotations=_READ_ONLY)
    def path_between(start: Name, end: Name) -> Annotated[CallToolResult, PathReply]:
        """Show a shortest lineage path between two datasets or jobs, in either direction."""
        return _tool_result(lambda: path_reply(lineage.find_path(start, end)))

    @server.tool(title="Impact of a change", annotations=_READ_ONLY)
    def impact(
        name: Name, depth: Depth = 20, cursor: Cursor = None, max_tokens: Tokens = DEFAULT_TOKENS
    ) -> Annotated[CallToolResult, ImpactReply]:
        """Show the datasets affected by changing a column or a dataset.

        Directly: values derive from it. Indirectly: it is used in a filter, join, group or sort.
        """
        return _tool_result(
            lambda: impact_reply(lineage.analyze_impact(name, TraversalLimits(depth=depth)), cursor, max_tokens)
        )


def _add_run_tools(server: MCPServer[None], lineage: LineageService) -> None:
    """Add the tools for runs and cells."""

    @server.tool(title="List runs", annotations=_READ_ONLY)
    def list_runs(
        selection: Annotated[
            RunSelection, Field(description="`recent`: newest first. `failed`: failed runs. `slow`: slowest first.")
        ] = "recent",
        cursor: Cursor = None,
        max_tokens: Tokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, RunsReply]:
        """List runs of notebooks and other jobs: recent, failed or slow ones."""
        return _tool_result(lambda: runs_reply(lineage, selection, cursor, max_tokens))

    @server.tool(title="Compare two runs", annotations=_READ_ONLY)
    def diff_runs(
        left: Annotated[str, Field(description="Run id or session id of the first run.")],
        right: Annotated[str, Field(description="Run id or session id of the second run.")],
        cursor: Cursor = None,
        max_tokens: Tokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, DiffReply]:
        """Compare two runs: state, duration, datasets, columns, lineage and code."""
        return _tool_result(lambda: diff_reply(lineage.diff_runs(left, right), cursor, max_tokens))

    @server.tool(title="Explain a notebook cell", annotations=_READ_ONLY)
    def explain_cell(
        cell: Annotated[str, Field(description="Execution id, cell id, name or number of the cell.")],
        session_id: Session = None,
        max_tokens: Tokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, CellReply]:
        """Explain a cell of a notebook run: its inputs, outputs, computed columns, code and error."""
        return _tool_result(lambda: explain_cell_reply(lineage, cell, session_id, max_tokens))


def _describe(lineage: LineageService, name: str | None, tokens: int) -> ToolReply:
    if name is None or lineage.is_session(name):
        return notebook_run_reply(lineage.find_session(name), tokens)
    return describe_reply(lineage.describe(name), tokens)


def _tool_result(build_reply: Callable[[], ToolReply]) -> CallToolResult:
    try:
        reply = build_reply()
    except ClewError as error:
        raise ToolError(str(error)) from error
    return CallToolResult(
        content=[TextContent(type="text", text=reply.text)], structured_content=reply.data.model_dump(mode="json")
    )
