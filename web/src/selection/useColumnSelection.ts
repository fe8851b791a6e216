/** The active column, with its highlighted path: the hovered or focused one, else the selected one. */

import { createContext, useContext, useMemo, useState } from "react";
import type { Port } from "../api/types";
import { columnPath, type EdgeLike, isSameColumn, type LineageIndex, type Path } from "./lineageIndex";

export interface ColumnSelection<E extends EdgeLike = EdgeLike> {
  index: LineageIndex<E>;
  selected: Port | null;
  active: Port | null;
  /** The path of `active`, which is highlighted. */
  path: Path | null;
  /** The path of `selected`, which decides on the visible columns: these do not change while hovering. */
  selectedPath: Path | null;
  hover: (column: Port | null) => void;
  select: (column: Port) => void;
  /** The label of the dataset at an index. */
  labelOf: (state: number) => string;
}

interface Options {
  selected: Port | null;
  select: (column: Port) => void;
  labelOf: (state: number) => string;
}

export const ColumnSelectionContext = createContext<ColumnSelection | null>(null);

export function useSelection(): ColumnSelection {
  const selection = useContext(ColumnSelectionContext);
  if (!selection) throw new Error("ColumnSelectionContext is missing.");
  return selection;
}

export function useColumnSelection<E extends EdgeLike>(
  index: LineageIndex<E>,
  { selected, select, labelOf }: Options,
): ColumnSelection<E> {
  const [hovered, hover] = useState<Port | null>(null);
  const selectedPath = useMemo(() => (selected ? columnPath(index, selected) : null), [index, selected]);
  const active = hovered ?? selected;
  const path = useMemo(
    () => (active === null || isSameColumn(active, selected) ? selectedPath : columnPath(index, active)),
    [index, active, selected, selectedPath],
  );
  return { index, selected, active, path, selectedPath, hover, select, labelOf };
}
