import { createContext, useContext, useMemo } from "react";
import { itemAt } from "../api/client";
import type { PageEdge, Port, RunPage } from "../api/types";
import { visibleColumns } from "../graph/visibleColumns";
import { type Params, type Route, updateQuery } from "../router";
import { buildLineageIndex, columnKey, isSameColumn, type Path } from "../selection/lineageIndex";
import { type ColumnSelection, useColumnSelection } from "../selection/useColumnSelection";

export interface RunContextValue extends ColumnSelection<PageEdge> {
  page: RunPage;
  /** Indexes of the cells on the highlighted path. */
  activeCells: ReadonlySet<number>;
  /** Up to `max` columns of a state, those on the selected path first. */
  columnsOf: (state: number, max: number) => string[];
}

export const RunContext = createContext<RunContextValue | null>(null);

export function useRun(): RunContextValue {
  const value = useContext(RunContext);
  if (!value) throw new Error("RunContext is missing.");
  return value;
}

/** The selection in a run: the column in the URL, else the focus of the run. */
export function useRunSelection(page: RunPage, route: Route): RunContextValue {
  const index = useMemo(() => buildLineageIndex(page), [page]);
  const selected = useMemo(() => columnFromParams(page, route.params) ?? page.focus, [page, route]);
  const select = (column: Port) => updateQuery(columnParams(page, isSameColumn(column, page.focus) ? null : column));
  const labelOf = (state: number) => page.states[state]?.label ?? "";
  const selection = useColumnSelection(index, { selected, select, labelOf });
  const { path, selectedPath } = selection;
  const activeCells = useMemo(() => cellsOnPath(page, path), [page, path]);
  const columnsOf = useMemo(() => {
    return (state: number, max: number) => {
      const names = itemAt(page.states, state).columns.map((field) => field.name);
      const onPath = names.filter((column) => selectedPath?.columns.has(columnKey({ state, column })));
      return visibleColumns(names, onPath, max);
    };
  }, [page, selectedPath]);
  return { ...selection, page, activeCells, columnsOf };
}

function cellsOnPath(page: RunPage, path: Path | null): Set<number> {
  const cells = new Set<number>();
  for (const i of path?.edges.keys() ?? []) {
    const operation = page.edges[i]?.operation ?? null;
    const cell = operation === null ? null : itemAt(page.operations, operation).cell;
    if (cell !== null) cells.add(cell);
  }
  return cells;
}

/** The column that the parameters of a URL name: the last state of that name and version, unless `nth` is given. */
export function columnFromParams(page: RunPage, params: URLSearchParams): Port | null {
  const [dataset, column, nth] = [params.get("dataset"), params.get("column"), params.get("nth")];
  if (dataset === null || column === null) return null;
  const states = statesWithColumn(page, dataset, params.get("version"), column);
  const state = nth !== null && /^\d+$/.test(nth) ? states[Number(nth)] : states.at(-1);
  return state === undefined ? null : { state, column };
}

/** The parameters of a URL that name a column. */
export function columnParams(page: RunPage, column: Port | null): Params {
  if (column === null || column.column === null) return { dataset: null, version: null, column: null, nth: null };
  const state = itemAt(page.states, column.state);
  const states = statesWithColumn(page, state.name, state.version, column.column);
  const nth = states.at(-1) === column.state ? null : `${states.indexOf(column.state)}`;
  return { dataset: state.name, version: state.version, column: column.column, nth };
}

function statesWithColumn(page: RunPage, name: string, version: string | null, column: string): number[] {
  return page.states.flatMap((state, i) => {
    const isMatch = state.name === name && (version === null || state.version === version);
    return isMatch && state.columns.some((field) => field.name === column) ? [i] : [];
  });
}
