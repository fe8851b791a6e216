import { useEffect, useRef, useState } from "react";
import { itemAt } from "../api/client";
import type { PageCell, RunPage } from "../api/types";
import controls from "../components/controls.module.css";
import { ErrorBox } from "../components/ErrorBox";
import { ColumnFilter } from "../components/ListControls";
import layout from "../components/layout.module.css";
import { countLabel, formatCount, formatDate, formatDuration, formatMemory, nodeLabel, pluralize } from "../format";
import card from "../graph/Card.module.css";
import { ColumnButton } from "../graph/ColumnButton";
import { updateQuery } from "../router";
import styles from "./DetailPanel.module.css";
import { useRun } from "./runContext";

const MAX_COLUMNS = 200;

/** Details of the cell or dataset that is open: `cell:<execution id>` or `state:<index>`. */
export function DetailPanel({ open }: { open: string | null }) {
  const { page } = useRun();
  const panel = useRef<HTMLElement>(null);
  const content = open === null ? null : detailContent(page, open);
  useEffect(() => {
    if (open === null) return;
    panel.current?.focus();
    const onKeyDown = (event: KeyboardEvent) => event.key === "Escape" && close();
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [open]);
  if (!content) return null;
  return (
    <aside className={styles.panel} ref={panel} tabIndex={-1} aria-label="Details">
      <button type="button" className={`${controls.quiet} ${styles.close}`} onClick={close} aria-label="Close details">
        ×
      </button>
      {content}
    </aside>
  );
}

function close(): void {
  updateQuery({ open: null });
}

function detailContent(page: RunPage, open: string) {
  const [kind, id = ""] = open.split(/:(.*)/s, 2);
  if (kind === "cell") {
    const index = page.cells.findIndex((cell) => cell.executionId === id);
    return index < 0 ? null : <CellDetail index={index} cell={itemAt(page.cells, index)} />;
  }
  const index = /^\d+$/.test(id) ? Number(id) : -1;
  return index >= 0 && index < page.states.length ? <DatasetDetail key={index} index={index} /> : null;
}

function CellDetail({ index, cell }: { index: number; cell: PageCell }) {
  const { page, path } = useRun();
  const operations = page.operations.filter((operation) => operation.cell === index);
  const onPath = new Set([...(path?.edges.keys() ?? [])].map((i) => page.edges[i]?.operation));
  const highlightedLines = new Set(
    page.operations.flatMap((op, i) => (op.cell === index && onPath.has(i) ? (op.line ?? []) : [])),
  );
  const growth =
    cell.startMemoryMb !== null && cell.endMemoryMb !== null ? cell.endMemoryMb - cell.startMemoryMb : null;
  const facts = [
    cell.state,
    formatDate(cell.startedAt),
    formatDuration(cell.durationMs),
    growth === null
      ? ""
      : `${formatMemory(cell.endMemoryMb)} after (${growth < 0 ? "−" : "+"}${formatMemory(Math.abs(growth))})`,
  ];
  return (
    <>
      <h2>
        Cell {cell.number} · <bdi>{cell.title}</bdi>
      </h2>
      <p className={layout.facts}>{facts.filter(Boolean).join(" · ")}</p>
      {cell.error && (
        <ErrorBox message={`${cell.error.type}: ${cell.error.message}`} stackTrace={cell.error.traceback} />
      )}
      <ol className={styles.listing}>
        {cell.source.split("\n").map((line, i) => (
          <li
            // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other key
            key={i}
            data-highlight={highlightedLines.has(i + 1) || undefined}
            data-error={cell.error?.line === i + 1 || undefined}
          >
            <code>{line || " "}</code>
          </li>
        ))}
      </ol>
      {operations.length > 0 && <h3>{pluralize(operations.length, "operation")}</h3>}
      <ul className={styles.operations}>
        {operations.map((operation, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the order of operations is fixed
          <li key={i}>
            <b>{operation.method}</b>{" "}
            <span className={layout.facts}>
              {[operation.kind, operation.line && `line ${operation.line}`, formatDuration(operation.durationMs)]
                .filter(Boolean)
                .join(" · ")}
            </span>
            <code>{operation.code}</code>
          </li>
        ))}
      </ul>
    </>
  );
}

function DatasetDetail({ index }: { index: number }) {
  const { page } = useRun();
  const [filter, setFilter] = useState("");
  const state = itemAt(page.states, index);
  const matches = state.columns.filter((field) => field.name.toLowerCase().includes(filter.toLowerCase()));
  const cut = countLabel(Math.min(matches.length, MAX_COLUMNS), state.columns.length);
  const operation = state.producer === null ? null : itemAt(page.operations, state.producer);
  const cell = operation?.cell == null ? null : itemAt(page.cells, operation.cell);
  const facts = [
    state.kind === "frame" ? `frame, version ${state.version ?? "unknown"}` : "file",
    state.rowCount === null ? "" : `${formatCount(state.rowCount)} rows`,
    cell ? `produced by cell ${cell.number}` : "from outside the run",
  ];
  return (
    <>
      <h2>
        <bdi>{state.label}</bdi>
      </h2>
      <p className={layout.facts}>{facts.filter(Boolean).join(" · ")}</p>
      <p className={layout.facts}>
        <bdi>{nodeLabel(state)}</bdi>
      </p>
      <ColumnFilter filter={filter} setFilter={setFilter}>
        <small>{cut || `${state.columns.length} columns`}</small>
      </ColumnFilter>
      <div className={styles.columns}>
        {matches.slice(0, MAX_COLUMNS).map((field) => (
          <ColumnButton key={field.name} className={card.column} state={index} column={field.name} type={field.type} />
        ))}
      </div>
    </>
  );
}
