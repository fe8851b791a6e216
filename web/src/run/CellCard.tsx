import type { CSSProperties } from "react";
import { itemAt } from "../api/client";
import type { Box, PageCell, PageOperation } from "../api/types";
import { formatDuration, formatMemory, formatShape } from "../format";
import card from "../graph/Card.module.css";
import { ColumnButton } from "../graph/ColumnButton";
import { updateQuery } from "../router";
import type { EdgeKind } from "../selection/lineageIndex";
import styles from "./CellCard.module.css";
import type { OperationColumns } from "./lanes";
import { useRun } from "./runContext";

interface Props {
  index: number;
  box: Box | undefined;
  operations: OperationColumns;
  top: number;
}

const MAX_CHIPS = 6;

/** A cell: its head, the lines of code that matter, its error, the columns of its frames, its share of the time. */
export function CellCard({ index, box, operations, top }: Props) {
  const { page } = useRun();
  const cell = itemAt(page.cells, index);
  if (!box) return null;
  const highlighted = [...operations].flatMap(([i, columns]) => {
    const operation = itemAt(page.operations, i);
    return operation.cell === index ? [{ operation, columns }] : [];
  });
  const lines = cell.source.split("\n");
  return (
    <article
      className={`${card.card} ${styles.cell}`}
      data-highlight={highlighted.length > 0 || undefined}
      data-state={cell.state}
      data-testid="cell"
      data-markdown={(cell.isMarkdown && !cell.error) || undefined}
      style={{ left: box.x, top: box.y + top, width: box.width, height: box.height }}
    >
      <CellHead cell={cell} firstLine={firstLine(cell, lines)} />
      {cell.shownLines.map((number) => (
        <CodeLine
          key={number}
          text={lines[number - 1] ?? ""}
          number={number}
          highlighted={highlightedAt(cell, highlighted, number)}
          isError={cell.error?.line === number}
        />
      ))}
      {cell.error && (
        <p className={styles.error} title={cell.error.message}>
          {cell.error.type}: {cell.error.message}
        </p>
      )}
      {cell.frames.length > 0 && <FrameColumns cell={cell} />}
      <i
        className={styles.time}
        style={{ "--from": cell.offset, "--share": cell.share } as CSSProperties}
        title={timeTitle(cell)}
      />
    </article>
  );
}

/** The first line of a cell whose code is not shown, unless its title says the same. */
function firstLine(cell: PageCell, lines: string[]): string {
  const line = lines.find((text) => text.trim())?.trim() ?? "";
  const isTitle = line.replace(/^#\s*/, "").startsWith(cell.title.replace(/…$/, ""));
  return cell.shownLines.length || cell.isMarkdown || isTitle ? "" : line;
}

interface HighlightedOperation {
  operation: PageOperation;
  columns: Map<string, EdgeKind>;
}

/** The operations with a line in their code, the longest first. */
function highlightedAt(cell: PageCell, highlighted: HighlightedOperation[], number: number): HighlightedOperation[] {
  const matches = highlighted.filter(({ operation }) => {
    const first = operation.line ?? cell.shownLines[0] ?? 1;
    return first <= number && number <= first + operation.code.split("\n").length - 1;
  });
  return matches.toSorted((a, b) => b.operation.code.length - a.operation.code.length);
}

const STATE_LABELS: Partial<Record<PageCell["state"], string>> = {
  stopped: "stopped",
  running: "running",
  lost: "did not finish",
};

function CellHead({ cell, firstLine }: { cell: PageCell; firstLine: string }) {
  const { page } = useRun();
  const frames = cell.frames.map((i) => {
    const state = itemAt(page.states, i);
    return `${state.label === cell.title ? "" : `${state.label} `}${formatShape(state)}`;
  });
  const stateLabel = STATE_LABELS[cell.state];
  return (
    <button
      type="button"
      className={styles.head}
      onClick={() => updateQuery({ open: `cell:${cell.executionId}` })}
      title={memoryTitle(cell)}
    >
      <i>{cell.number}</i>
      <b>
        <bdi>{cell.title}</bdi>
      </b>
      {firstLine && <code>{firstLine}</code>}
      <span>
        {cell.error && <em>{cell.error.type}</em>}
        {stateLabel && <em>{stateLabel}</em>}
        {[...frames, formatDuration(cell.durationMs)].filter(Boolean).join(" · ")}
      </span>
    </button>
  );
}

interface CodeLineProps {
  text: string;
  number: number;
  highlighted: HighlightedOperation[];
  isError: boolean;
}

function CodeLine({ text, number, highlighted, isError }: CodeLineProps) {
  const starting = highlighted.filter(({ operation }) => (operation.line ?? number) === number);
  const names = columnNames(starting);
  const isDirect = highlighted.some(({ columns }) => [...columns.values()].includes("direct"));
  const label = names.length > 3 ? `${names.slice(0, 2).join(", ")} + ${names.length - 2}` : names.join(", ");
  const [before, marked, after] = highlighted[0] ? splitLine(text, number, highlighted[0].operation) : [text, "", ""];
  return (
    <p
      className={styles.code}
      data-line={number}
      data-highlight={highlighted.length ? (isDirect ? "direct" : "indirect") : undefined}
      data-error={isError || undefined}
    >
      <code>
        {before}
        {marked && <mark>{marked}</mark>}
        {after}
      </code>
      {label && <small title={names.join(", ")}>{label}</small>}
    </p>
  );
}

/** The directly affected columns, or the indirectly affected ones if there are none. */
function columnNames(highlighted: HighlightedOperation[]): string[] {
  const all = highlighted.flatMap(({ columns }) => [...columns]);
  const direct = all.filter(([, kind]) => kind === "direct");
  return [...new Set((direct.length ? direct : all).map(([name]) => name))];
}

/** A line before, inside and after the code of an operation; all of it is inside if the code is not found. */
function splitLine(text: string, number: number, operation: PageOperation): [string, string, string] {
  const code = operation.code.split("\n")[number - (operation.line ?? number)]?.trim() ?? "";
  const start = code ? text.indexOf(code) : -1;
  if (start >= 0) return [text.slice(0, start), code, text.slice(start + code.length)];
  const indent = text.length - text.trimStart().length;
  return [text.slice(0, indent), text.slice(indent), ""];
}

function FrameColumns({ cell }: { cell: PageCell }) {
  const { page, columnsOf } = useRun();
  const maxPerFrame = Math.max(1, Math.floor(MAX_CHIPS / cell.frames.length));
  return (
    <div className={styles.frames}>
      {cell.frames.slice(0, MAX_CHIPS).map((i) => {
        const state = itemAt(page.states, i);
        const columns = columnsOf(i, maxPerFrame);
        const hidden = state.columns.length - columns.length;
        return (
          <span key={i}>
            {cell.frames.length > 1 && <small>{state.label}</small>}
            {columns.map((column) => (
              <ColumnButton key={column} className={card.chip} state={i} column={column} />
            ))}
            {hidden > 0 && (
              <button
                type="button"
                className={`${card.chip} ${styles.moreColumns}`}
                onClick={() => updateQuery({ open: `state:${i}` })}
                aria-label={`+ ${hidden} columns of ${state.label}`}
              >
                + {hidden}
              </button>
            )}
          </span>
        );
      })}
    </div>
  );
}

function timeTitle(cell: PageCell): string {
  const percent = (cell.share * 100).toFixed(cell.share < 0.1 ? 1 : 0);
  return `${formatDuration(cell.durationMs)}, ${percent} % of the total cell time`;
}

function memoryTitle(cell: PageCell): string {
  if (cell.startMemoryMb === null || cell.endMemoryMb === null) return cell.title;
  return `${cell.title}: memory ${formatMemory(cell.startMemoryMb)} → ${formatMemory(cell.endMemoryMb)}`;
}
