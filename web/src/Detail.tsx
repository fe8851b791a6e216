import { useEffect, useRef, useState } from "react";
import { ColumnButton } from "./ColumnButton";
import { useFollowed } from "./follow";
import { at, type Cell, type RunPage } from "./page";
import { go } from "./route";
import { count, duration, memory, moment, shownOf } from "./words";

const MAX_LISTED = 200;

/** All there is to know about the cell or dataset that was opened. */
export function Detail({ open }: { open: string | null }) {
  const { page } = useFollowed();
  const panel = useRef<HTMLElement>(null);
  const content = open === null ? null : contentOf(page, open);
  useEffect(() => {
    if (open === null) return;
    panel.current?.focus();
    const close = (event: KeyboardEvent) => event.key === "Escape" && go({ open: null });
    addEventListener("keydown", close);
    return () => removeEventListener("keydown", close);
  }, [open]);
  if (!content) return null;
  return (
    <aside className="detail" ref={panel} tabIndex={-1} aria-label="Details">
      <button type="button" className="quiet close" onClick={() => go({ open: null })} aria-label="Close details">
        ×
      </button>
      {content}
    </aside>
  );
}

function contentOf(page: RunPage, open: string) {
  const [kind, id = ""] = open.split(/:(.*)/s, 2);
  if (kind === "cell") {
    const place = page.cells.findIndex((cell) => cell.executionId === id);
    return place < 0 ? null : <CellDetail place={place} cell={at(page.cells, place)} />;
  }
  const place = /^\d+$/.test(id) ? Number(id) : -1;
  return place >= 0 && place < page.states.length ? <StateDetail key={place} place={place} /> : null;
}

function CellDetail({ place, cell }: { place: number; cell: Cell }) {
  const { page, path } = useFollowed();
  const steps = page.operations.filter((operation) => operation.cell === place);
  const onPath = new Set([...(path?.edges.keys() ?? [])].map((i) => page.edges[i]?.operation));
  const lit = new Set(page.operations.flatMap((op, i) => (op.cell === place && onPath.has(i) ? (op.line ?? []) : [])));
  const used = cell.startMemoryMb !== null && cell.endMemoryMb !== null ? cell.endMemoryMb - cell.startMemoryMb : null;
  const facts = [
    cell.state,
    moment(cell.startedAt),
    duration(cell.durationMs),
    used === null ? "" : `${memory(cell.endMemoryMb)} after (${used < 0 ? "−" : "+"}${memory(Math.abs(used))})`,
  ];
  return (
    <>
      <h2>
        Cell {cell.number} · <bdi>{cell.title}</bdi>
      </h2>
      <p className="facts">{facts.filter(Boolean).join(" · ")}</p>
      {cell.error && (
        <div className="failure">
          <b>
            {cell.error.type}: {cell.error.message}
          </b>
          <pre>{cell.error.traceback}</pre>
        </div>
      )}
      <ol className="listing">
        {cell.source.split("\n").map((line, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name
          <li key={i} data-lit={lit.has(i + 1) || undefined} data-error={cell.error?.line === i + 1 || undefined}>
            <code>{line || " "}</code>
          </li>
        ))}
      </ol>
      {steps.length > 0 && <h3>{steps.length === 1 ? "One operation" : `${steps.length} operations`}</h3>}
      <ul className="steps">
        {steps.map((step, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: operations keep their order
          <li key={i}>
            <b>{step.method}</b>{" "}
            <span className="facts">
              {[step.kind, step.line && `line ${step.line}`, duration(step.durationMs)].filter(Boolean).join(" · ")}
            </span>
            <code>{step.code}</code>
          </li>
        ))}
      </ul>
    </>
  );
}

function StateDetail({ place }: { place: number }) {
  const { page } = useFollowed();
  const [wanted, setWanted] = useState("");
  const state = at(page.states, place);
  const found = state.columns.filter((field) => field.name.toLowerCase().includes(wanted.toLowerCase()));
  const cut = shownOf(Math.min(found.length, MAX_LISTED), state.columns.length);
  const producer = state.producer === null ? null : at(page.operations, state.producer);
  const maker = producer?.cell == null ? null : at(page.cells, producer.cell);
  return (
    <>
      <h2>
        <bdi>{state.label}</bdi>
      </h2>
      <p className="facts">
        {[
          state.kind === "frame" ? `frame, version ${state.version ?? "unknown"}` : "file",
          state.rowCount === null ? "" : `${count(state.rowCount)} rows`,
          maker ? `left by cell ${maker.number}` : "from outside the run",
        ]
          .filter(Boolean)
          .join(" · ")}
      </p>
      <p className="facts name">
        <bdi>
          {state.namespace} · {state.name}
        </bdi>
      </p>
      <label className="filter">
        <span className="unseen">Find a column</span>
        <input
          type="search"
          value={wanted}
          placeholder="Find a column"
          onChange={(event) => setWanted(event.target.value)}
        />
        <small>{cut || `${state.columns.length} columns`}</small>
      </label>
      <div className="column-list">
        {found.slice(0, MAX_LISTED).map((field) => (
          <ColumnButton
            key={field.name}
            className="col"
            port={{ state: place, column: field.name }}
            type={field.type}
          />
        ))}
      </div>
    </>
  );
}
