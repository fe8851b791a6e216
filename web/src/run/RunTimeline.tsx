import { itemAt } from "../api/client";
import type { PageCell } from "../api/types";
import { TimeTrack } from "../components/TimeTrack";
import { formatDate, formatDuration, formatMemory } from "../format";
import { updateQuery } from "../router";
import graph from "./RunGraph.module.css";
import styles from "./RunTimeline.module.css";
import { useRun } from "./runContext";

/** Start, duration and memory of each cell and each operation. */
export function RunTimeline() {
  const { page } = useRun();
  const range = timeRange(page.cells);
  if (!range) return <p className={graph.empty}>No start times were recorded for this run.</p>;
  const maxMemory = Math.max(1, ...page.cells.flatMap((cell) => [cell.startMemoryMb ?? 0, cell.endMemoryMb ?? 0]));
  return (
    <section className={styles.timeline} aria-label="Timeline of cells and operations">
      <div className={styles.head} aria-hidden="true">
        <span>cell</span>
        <span className={styles.scale}>
          <i>{formatDate(new Date(range.start).toISOString())}</i>
          <i>+ {formatDuration(range.length)}</i>
        </span>
        <span>duration</span>
        <span>memory</span>
      </div>
      <ol className={styles.cells}>
        {page.cells.map((cell, index) => (
          <CellRow key={cell.executionId} cell={cell} index={index} range={range} maxMemory={maxMemory} />
        ))}
      </ol>
    </section>
  );
}

interface TimeRange {
  start: number;
  length: number;
}

function timeRange(cells: readonly PageCell[]): TimeRange | null {
  const started = cells.flatMap((cell) => (cell.startedAt ? [{ ...cell, start: Date.parse(cell.startedAt) }] : []));
  if (started.length === 0) return null;
  const start = Math.min(...started.map((cell) => cell.start));
  const end = Math.max(...started.map((cell) => cell.start + (cell.durationMs ?? 0)));
  return { start, length: Math.max(1, end - start) };
}

interface CellRowProps {
  cell: PageCell;
  index: number;
  range: TimeRange;
  maxMemory: number;
}

function CellRow({ cell, index, range, maxMemory }: CellRowProps) {
  const { page } = useRun();
  const operations = page.operations.filter((operation) => operation.cell === index);
  const open = () => updateQuery({ open: `cell:${cell.executionId}` });
  return (
    <li>
      <button type="button" className={styles.row} onClick={open}>
        <span className={styles.label}>
          <i>{cell.number}</i>
          <bdi>{cell.title}</bdi>
          {cell.error && <em>{cell.error.type}</em>}
        </span>
        <Bar startedAt={cell.startedAt} durationMs={cell.durationMs} range={range} isFailed={cell.state === "failed"} />
        <span className={styles.duration}>{formatDuration(cell.durationMs)}</span>
        <Memory cell={cell} max={maxMemory} />
      </button>
      {operations.map((operation, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the order of operations is fixed
        <div className={`${styles.row} ${styles.operation}`} key={i}>
          <span className={styles.label}>
            <code title={operation.code}>{operation.code.split("\n")[0]}</code>
          </span>
          <Bar
            startedAt={operation.startedAt ?? cell.startedAt}
            durationMs={operation.durationMs}
            range={range}
            isFailed={false}
            isThin
          />
          <span className={styles.duration}>{formatDuration(operation.durationMs)}</span>
          <span className={styles.memory}>
            {operation.outputs.map((state) => itemAt(page.states, state).label).join(", ")}
          </span>
        </div>
      ))}
    </li>
  );
}

interface BarProps {
  startedAt: string | null;
  durationMs: number | null;
  range: TimeRange;
  isFailed: boolean;
  isThin?: boolean;
}

function Bar({ startedAt, durationMs, range, isFailed, isThin = false }: BarProps) {
  if (startedAt === null) return <TimeTrack isThin={isThin} />;
  const start = (Date.parse(startedAt) - range.start) / range.length;
  return <TimeTrack start={start} length={(durationMs ?? 0) / range.length} isFailed={isFailed} isThin={isThin} />;
}

function Memory({ cell, max }: { cell: PageCell; max: number }) {
  const { startMemoryMb: before, endMemoryMb: after } = cell;
  if (before === null || after === null) return <span className={styles.memory} />;
  const growth = after - before;
  return (
    <span
      className={styles.memory}
      title={`${formatMemory(before)} before, ${formatMemory(after)} after`}
      data-testid="memory"
    >
      <span className={styles.gauge}>
        <i style={{ inlineSize: `${(Math.min(before, after) / max) * 100}%` }} />
        <i data-growth={growth > 0} style={{ inlineSize: `${(Math.abs(growth) / max) * 100}%` }} />
      </span>
      <span>
        {formatMemory(after)}
        {Math.abs(growth) >= 1 && <small>{` ${growth > 0 ? "+" : "−"}${formatMemory(Math.abs(growth))}`}</small>}
      </span>
    </span>
  );
}
