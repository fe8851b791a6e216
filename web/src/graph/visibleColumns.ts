import type { Path } from "../selection/lineageIndex";

/** The columns of a dataset that are on a path. */
export function columnsOnPath(path: Path | null, state: number): string[] {
  return [...(path?.columns.keys() ?? [])].flatMap((key) => {
    const [owner, column] = key.split(/\/(.*)/s, 2);
    return owner === `${state}` && column !== undefined && column !== "" ? [column] : [];
  });
}

/** Up to `max` columns: those in `first` before others, in the order of the schema. */
export function visibleColumns(names: readonly string[], first: readonly string[], max: number): string[] {
  const chosen = new Set([...new Set([...first, ...names])].slice(0, max));
  return [...new Set([...names, ...first])].filter((name) => chosen.has(name));
}
