import { useState } from "react";
import controls from "./controls.module.css";
import styles from "./JsonTree.module.css";

const MAX_ENTRIES = 50;

/** A JSON value as a tree with expandable branches. */
export function JsonTree({ value, name, depth = 0 }: { value: unknown; name?: string; depth?: number }) {
  const [max, setMax] = useState(MAX_ENTRIES);
  const entries = entriesOf(value);
  const label = name === undefined ? null : <span className={styles.key}>{name}: </span>;
  if (entries === null) {
    return (
      <div className={styles.leaf}>
        {label}
        <bdi data-type={value === null ? "null" : typeof value}>{String(value)}</bdi>
      </div>
    );
  }
  return (
    <details className={styles.branch} open={depth < 2 && entries.length <= 20} data-testid="json-branch">
      <summary>
        {label}
        <span className={styles.size}>
          {Array.isArray(value) ? `list of ${entries.length}` : summarizeKeys(entries)}
        </span>
      </summary>
      {entries.slice(0, max).map(([key, child]) => (
        <JsonTree key={key} name={key} value={child} depth={depth + 1} />
      ))}
      {entries.length > max && (
        <button type="button" className={controls.quiet} onClick={() => setMax(max * 10)}>
          {max} of {entries.length}: show more
        </button>
      )}
    </details>
  );
}

function entriesOf(value: unknown): [string, unknown][] | null {
  if (Array.isArray(value)) return value.map((item, i) => [`${i}`, item]);
  return typeof value === "object" && value !== null ? Object.entries(value) : null;
}

function summarizeKeys(entries: [string, unknown][]): string {
  const keys = entries.slice(0, 3).map(([key]) => key);
  return `{ ${keys.join(", ")}${entries.length > 3 ? ", …" : ""} }`;
}
