import { useState } from "react";

const MOST = 50;

/** Any JSON, to be opened branch by branch. */
export function Tree({ value, name, depth = 0 }: { value: unknown; name?: string; depth?: number }) {
  const [most, setMost] = useState(MOST);
  const entries = entriesOf(value);
  const label = name === undefined ? null : <span className="key">{name}: </span>;
  if (entries === null) {
    return (
      <div className="leaf">
        {label}
        <bdi data-type={value === null ? "null" : typeof value}>{shown(value)}</bdi>
      </div>
    );
  }
  return (
    <details className="branch" open={depth < 2 && entries.length <= 20}>
      <summary>
        {label}
        <span className="size">{Array.isArray(value) ? `list of ${entries.length}` : names(entries)}</span>
      </summary>
      {entries.slice(0, most).map(([key, one]) => (
        <Tree key={key} name={key} value={one} depth={depth + 1} />
      ))}
      {entries.length > most && (
        <button type="button" className="quiet" onClick={() => setMost(most * 10)}>
          {most} of {entries.length}: show more
        </button>
      )}
    </details>
  );
}

function entriesOf(value: unknown): [string, unknown][] | null {
  if (Array.isArray(value)) return value.map((one, i) => [`${i}`, one]);
  return typeof value === "object" && value !== null ? Object.entries(value) : null;
}

function names(entries: [string, unknown][]): string {
  const shown = entries.slice(0, 3).map(([key]) => key);
  return `{ ${shown.join(", ")}${entries.length > 3 ? ", …" : ""} }`;
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : String(value);
}
