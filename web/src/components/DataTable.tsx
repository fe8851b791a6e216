import { type ReactNode, useState } from "react";
import { countLabel } from "../format";
import controls from "./controls.module.css";
import styles from "./DataTable.module.css";

interface TableProps {
  heads: readonly string[];
  isWide?: boolean;
  children: ReactNode;
}

/** A table with a head; `children` are the rows. */
export function Table({ heads, isWide = false, children }: TableProps) {
  return (
    <table className={`${styles.table} ${isWide ? styles.wide : ""}`}>
      <thead>
        <tr>
          {heads.map((head) => (
            <th key={head} scope="col">
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

const MAX_ROWS = 100;

/** A table from rows of cells; a long list is cut, with a button to show all. */
export function DataTable({ heads, rows }: { heads: readonly string[]; rows: readonly (readonly ReactNode[])[] }) {
  const [isComplete, setComplete] = useState(false);
  const shown = isComplete ? rows : rows.slice(0, MAX_ROWS);
  const cut = countLabel(shown.length, rows.length);
  return (
    <>
      <Table heads={heads}>
        {shown.map((row, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the order of rows is fixed
          <tr key={i}>
            {row.map((cell, j) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: as above
              <td key={j}>{typeof cell === "string" ? <bdi>{cell}</bdi> : cell}</td>
            ))}
          </tr>
        ))}
      </Table>
      {cut && (
        <button type="button" className={controls.quiet} onClick={() => setComplete(true)}>
          {cut}: show all
        </button>
      )}
    </>
  );
}
