/** Controls that several lists have. */

import type { ReactNode } from "react";
import controls from "./controls.module.css";

export const PAGE_SIZE = 50;
export const MAX_LISTED = 500;

type Setter<T> = (value: T) => void;

/** A button that doubles the number of listed entries. */
export function ShowMore({ limit, setLimit }: { limit: number; setLimit: Setter<number> }) {
  return (
    <button type="button" className={controls.button} onClick={() => setLimit(Math.min(MAX_LISTED, limit * 2))}>
      Show more
    </button>
  );
}

/** A text field to filter columns by name. */
export function ColumnFilter(props: { filter: string; setFilter: Setter<string>; children?: ReactNode }) {
  return (
    <label className={controls.filter}>
      <span className="visually-hidden">Find a column</span>
      <input
        type="search"
        value={props.filter}
        placeholder="Find a column"
        onChange={(event) => props.setFilter(event.target.value)}
      />
      {props.children}
    </label>
  );
}
