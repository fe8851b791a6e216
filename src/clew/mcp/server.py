"""The MCP server: read-only tools, each a question to `clew.query`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated, Final, TypeAlias

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from clew import __version__
from clew.errors import ClewError
from clew.mcp.ancestry import ancestry
from clew.mcp.budget import DEFAULT_TOKENS, FEWEST_TOKENS, MOST_TOKENS, Reply
from clew.mcp.cells import explanation
from clew.mcp.replies import CellReply, RunReply, RunsReply, UpstreamReply
from clew.mcp.runs import one_run, recent_runs, run_description
from clew.query.answers import Answers

INSTRUCTIONS: Final = (
    "Lineage of notebook runs: where a column came from, what each cell read and made, what it cost, why it failed. "
    "Start with `runs`; session ids, execution ids and column names in a reply can be given back to a tool as they are."
)

# Opened for each call: the index may be made, or made anew, while the server runs.
OpenAnswers: TypeAlias = Callable[[], AbstractContextManager[Answers]]

Tokens = Annotated[
    int,
    Field(
        ge=FEWEST_TOKENS, le=MOST_TOKENS, description="About how many tokens the answer may have; lists are cut to fit."
    ),
]
Column = Annotated[
    str, Field(description="DATASET.COLUMN, as in orders.csv.price; the end of a dataset's name will do.")
]
Session = Annotated[str | None, Field(description="Id of a notebook run, from `runs`; the last run if left out.")]

_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


def create_server(open_answers: OpenAnswers) -> MCPServer[None]:
    """The server, answering from whatever `open_answers` opens for a call."""
    server: MCPServer[None] = MCPServer("clew", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")

    @server.tool(title="Recent notebook runs", annotations=_READS)
    def runs(
        limit: Annotated[int, Field(ge=1, le=1000, description="How many runs at most.")] = 20,
        max_tokens: Tokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, RunsReply]:
        """List recent notebook runs, the newest first, each with its session id, state and failed cells."""
        return _answered(open_answers, lambda answers: recent_runs(answers, limit, max_tokens))

    @server.tool(title="What happened in a run", annotations=_READS)
    def describe_run(
        session_id: Session = None, max_tokens: Tokens = DEFAULT_TOKENS
    ) -> Annotated[CallToolResult, RunReply]:
        """Describe a notebook run: its cells with time, memory and errors, and the datasets it read and wrote."""
        return _answered(open_answers, lambda answers: run_description(one_run(answers, session_id), max_tokens))

    @server.tool(title="Where a column came from", annotations=_READS)
    def upstream(column: Column, max_tokens: Tokens = DEFAULT_TOKENS) -> Annotated[CallToolResult, UpstreamReply]:
        """Show where a column came from: its origins, and each step back with the cell, line and code that made it."""
        return _answered(open_answers, lambda answers: ancestry(answers.upstream(column), max_tokens))

    @server.tool(title="What a cell did", annotations=_READS)
    def explain_cell(
        cell: Annotated[str, Field(description="Execution id, name, number or cell id of a cell.")],
        session_id: Session = None,
        max_tokens: Tokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, CellReply]:
        """Explain what a cell of a notebook run read and made, column by column, with its code and its error."""
        return _answered(open_answers, lambda answers: explanation(answers, cell, session_id, max_tokens))

    return server


def _answered(open_answers: OpenAnswers, ask: Callable[[Answers], Reply]) -> CallToolResult:
    try:
        with open_answers() as answers:
            reply = ask(answers)
    except ClewError as fault:
        raise ToolError(str(fault)) from fault
    return CallToolResult(
        content=[TextContent(type="text", text=reply.text)], structured_content=reply.data.model_dump(mode="json")
    )
