import { useFollowed } from "./follow";
import { at, type Cell } from "./page";
import { go } from "./route";
import { duration, memory, moment } from "./words";

/** When each cell and each operation ran, for how long, and how much memory there was before and after. */
export function TimeTab() {
  const { page } = useFollowed();
  const bounds = boundsOf(page.cells);
  if (!bounds) return <p className="nothing still">No cell of this run has told when it started.</p>;
  const most = Math.max(1, ...page.cells.flatMap((cell) => [cell.startMemoryMb ?? 0, cell.endMemoryMb ?? 0]));
  return (
    <section className="timeline" aria-label="Cells and operations in time">
      <div className="time-head" aria-hidden="true">
        <span>cell</span>
        <span className="scale">
          <i>{moment(new Date(bounds.from).toISOString())}</i>
          <i>+ {duration(bounds.span)}</i>
        </span>
        <span>took</span>
        <span>memory</span>
      </div>
      <ol className="time-cells">
        {page.cells.map((cell, place) => (
          <CellTime key={cell.executionId} cell={cell} place={place} bounds={bounds} most={most} />
        ))}
      </ol>
    </section>
  );
}

interface Bounds {
  from: number;
  span: number;
}

function boundsOf(cells: readonly Cell[]): Bounds | null {
  const starts = cells.flatMap((cell) => (cell.startedAt ? [Date.parse(cell.startedAt)] : []));
  if (starts.length === 0) return null;
  const from = Math.min(...starts);
  const to = Math.max(
    ...cells.flatMap((cell) => (cell.startedAt ? [Date.parse(cell.startedAt) + (cell.durationMs ?? 0)] : [])),
  );
  return { from, span: Math.max(1, to - from) };
}

function CellTime({ cell, place, bounds, most }: { cell: Cell; place: number; bounds: Bounds; most: number }) {
  const { page } = useFollowed();
  const steps = page.operations.filter((operation) => operation.cell === place);
  const opened = () => go({ open: `cell:${cell.executionId}` });
  return (
    <li>
      <button type="button" className="time-row" onClick={opened} data-state={cell.state}>
        <span className="who">
          <i>{cell.number}</i>
          <bdi>{cell.title}</bdi>
          {cell.error && <em>{cell.error.type}</em>}
        </span>
        <span className="track">
          <Bar at={cell.startedAt} took={cell.durationMs} bounds={bounds} />
        </span>
        <span className="took">{duration(cell.durationMs)}</span>
        <Memory cell={cell} most={most} />
      </button>
      {steps.map((step, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: operations keep their order
        <div className="time-row step" key={i} data-state={step.state === "FAILED" ? "failed" : undefined}>
          <span className="who">
            <code title={step.code}>{step.code.split("\n")[0]}</code>
          </span>
          <span className="track">
            <Bar at={step.startedAt ?? cell.startedAt} took={step.durationMs} bounds={bounds} />
          </span>
          <span className="took">{duration(step.durationMs)}</span>
          <span className="mem faint">{step.outputs.map((i) => at(page.states, i).label).join(", ")}</span>
        </div>
      ))}
    </li>
  );
}

function Bar({ at: when, took, bounds }: { at: string | null; took: number | null; bounds: Bounds }) {
  if (when === null) return null;
  const from = (Date.parse(when) - bounds.from) / bounds.span;
  const share = (took ?? 0) / bounds.span;
  return (
    <i style={{ insetInlineStart: `${Math.min(99.5, from * 100)}%`, inlineSize: `${Math.max(0.4, share * 100)}%` }} />
  );
}

function Memory({ cell, most }: { cell: Cell; most: number }) {
  const { startMemoryMb: before, endMemoryMb: after } = cell;
  if (before === null || after === null) return <span className="mem" />;
  const grown = after - before;
  return (
    <span className="mem" title={`${memory(before)} before, ${memory(after)} after`}>
      <span className="gauge">
        <i style={{ inlineSize: `${(Math.min(before, after) / most) * 100}%` }} />
        <i data-grown={grown > 0} style={{ inlineSize: `${(Math.abs(grown) / most) * 100}%` }} />
      </span>
      <span>
        {memory(after)}
        {Math.abs(grown) >= 1 && <small>{` ${grown > 0 ? "+" : "−"}${memory(Math.abs(grown))}`}</small>}
      </span>
    </span>
  );
}
