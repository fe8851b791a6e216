import type { CSSProperties } from "react";
import { ColumnButton } from "./ColumnButton";
import { useFollowed } from "./follow";
import type { Strength } from "./lineage";
import { at, type Box, type Cell, type Operation } from "./page";
import { go } from "./route";
import { visibleColumns } from "./threads";
import { duration, memory, shape } from "./words";

type Made = Map<number, Map<string, Strength>>;

interface Props {
  place: number;
  box: Box | undefined;
  made: Made;
  top: number;
}

const MAX_CHIPS = 6;

export function CellCard({ place, box, made, top }: Props) {
  const { page } = useFollowed();
  const cell = at(page.cells, place);
  if (!box) return null;
  const lit = [...made].flatMap(([i, columns]) => {
    const operation = at(page.operations, i);
    return operation.cell === place ? [{ operation, columns }] : [];
  });
  const lines = cell.source.split("\n");
  return (
    <article
      className="card cell"
      data-lit={lit.length > 0 || undefined}
      data-state={cell.state}
      style={{ left: box.x, top: box.y + top, width: box.width, height: box.height }}
    >
      <CellHead cell={cell} firstLine={cell.shownLines.length ? "" : (lines.find((line) => line.trim()) ?? "")} />
      {cell.shownLines.map((number) => (
        <CodeLine
          key={number}
          text={lines[number - 1] ?? ""}
          number={number}
          lit={litAt(cell, lit, number)}
          error={cell.error?.line === number}
        />
      ))}
      {cell.error && (
        <p className="words" title={cell.error.message}>
          {cell.error.type}: {cell.error.message}
        </p>
      )}
      {cell.frames.length > 0 && <Ports cell={cell} />}
      <i
        className="time"
        style={{ "--from": cell.offset, "--share": cell.share } as CSSProperties}
        title={timeTitle(cell)}
      />
    </article>
  );
}

interface LitOperation {
  operation: Operation;
  columns: Map<string, Strength>;
}

/** What is lit at a line: each operation on all the lines of its code, the longest first. */
function litAt(cell: Cell, lit: LitOperation[], number: number): LitOperation[] {
  const found = lit.filter(({ operation }) => {
    const first = operation.line ?? cell.shownLines[0] ?? 1;
    return first <= number && number <= first + operation.code.split("\n").length - 1;
  });
  return found.toSorted((a, b) => b.operation.code.length - a.operation.code.length);
}

function CellHead({ cell, firstLine }: { cell: Cell; firstLine: string }) {
  const { page } = useFollowed();
  const left = cell.frames.map((i) => {
    const state = at(page.states, i);
    return `${state.label === cell.title ? "" : `${state.label} `}${shape(state)}`;
  });
  return (
    <button
      type="button"
      className="head"
      onClick={() => go({ open: `cell:${cell.executionId}` })}
      title={memoryTitle(cell)}
    >
      <i>{cell.number}</i>
      <b>
        <bdi>{cell.title}</bdi>
      </b>
      {firstLine && <code>{firstLine}</code>}
      <span>
        {cell.error && <em>{cell.error.type}</em>}
        {cell.state === "stopped" && <em>stopped</em>}
        {cell.state === "running" && <em>running</em>}
        {cell.state === "lost" && <em>no end was seen</em>}
        {[...left, duration(cell.durationMs)].filter(Boolean).join(" · ")}
      </span>
    </button>
  );
}

interface CodeLineProps {
  text: string;
  number: number;
  lit: LitOperation[];
  error: boolean;
}

function CodeLine({ text, number, lit, error }: CodeLineProps) {
  const starting = lit.filter(({ operation }) => (operation.line ?? number) === number);
  const names = columnNames(starting);
  const isDirect = lit.some(({ columns }) => [...columns.values()].includes("direct"));
  const label = names.length > 3 ? `${names.slice(0, 2).join(", ")} + ${names.length - 2}` : names.join(", ");
  const [before, marked, after] = lit[0] ? markedPart(text, number, lit[0].operation) : [text, "", ""];
  return (
    <p
      className="code"
      data-line={number}
      data-lit={lit.length ? (isDirect ? "direct" : "indirect") : undefined}
      data-error={error || undefined}
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

/** The columns made, or those only swayed where none is made. */
function columnNames(lit: LitOperation[]): string[] {
  const all = lit.flatMap(({ columns }) => [...columns]);
  const direct = all.filter(([, strength]) => strength === "direct");
  return [...new Set((direct.length ? direct : all).map(([name]) => name))];
}

/** A line before, within and after the operation's own text; all of it where the text is not found. */
function markedPart(text: string, number: number, operation: Operation): [string, string, string] {
  const code = operation.code.split("\n")[number - (operation.line ?? number)]?.trim() ?? "";
  const start = code ? text.indexOf(code) : -1;
  if (start >= 0) return [text.slice(0, start), code, text.slice(start + code.length)];
  const indent = text.length - text.trimStart().length;
  return [text.slice(0, indent), text.slice(indent), ""];
}

function Ports({ cell }: { cell: Cell }) {
  const { page, pinnedPath } = useFollowed();
  const room = Math.max(1, Math.floor(MAX_CHIPS / cell.frames.length));
  const shown = cell.frames.slice(0, MAX_CHIPS).map((i) => {
    const columns = visibleColumns(at(page.states, i), i, pinnedPath, room);
    return { place: i, label: at(page.states, i).label, columns, total: at(page.states, i).columns.length };
  });
  return (
    <div className="ports">
      {shown.map(({ place, label, columns, total }) => (
        <span key={place}>
          {cell.frames.length > 1 && <small>{label}</small>}
          {columns.map((column) => (
            <ColumnButton key={column} className="chip" port={{ state: place, column }} />
          ))}
          {total > columns.length && (
            <button
              type="button"
              className="chip more"
              onClick={() => go({ open: `state:${place}` })}
              aria-label={`+ ${total - columns.length} columns of ${label}`}
            >
              + {total - columns.length}
            </button>
          )}
        </span>
      ))}
    </div>
  );
}

function timeTitle(cell: Cell): string {
  return `${duration(cell.durationMs)}, ${(cell.share * 100).toFixed(cell.share < 0.1 ? 1 : 0)} % of the time that cells ran`;
}

function memoryTitle(cell: Cell): string {
  if (cell.startMemoryMb === null || cell.endMemoryMb === null) return cell.title;
  return `${cell.title}: memory ${memory(cell.startMemoryMb)} → ${memory(cell.endMemoryMb)}`;
}
