/** Which column is being followed: the one under the pointer, else the pinned one, else the run's own answer. */

import { createContext, useContext, useMemo, useState } from "react";
import { type Lineage, lineageOf, type Path, pathOf, samePort } from "./lineage";
import { at, type Port, type RunPage } from "./page";
import { go, portRoute, type Route, routePort } from "./route";

export interface Follow {
  page: RunPage;
  lineage: Lineage;
  pinned: Port | null;
  active: Port | null;
  /** The path of `active`, which is lit. */
  path: Path | null;
  /** The path of `pinned`, which decides what cards have room for: it does not change under the pointer. */
  pinnedPath: Path | null;
  /** The cells on `path`, by place. */
  litCells: ReadonlySet<number>;
  point: (port: Port | null) => void;
  pin: (port: Port) => void;
}

export const FollowContext = createContext<Follow | null>(null);

export function useFollowed(): Follow {
  const follow = useContext(FollowContext);
  if (!follow) throw new Error("This part of the page needs a run.");
  return follow;
}

export function useFollow(page: RunPage, route: Route): Follow {
  const [pointed, point] = useState<Port | null>(null);
  const lineage = useMemo(() => lineageOf(page), [page]);
  const pinned = useMemo(() => routePort(page, route) ?? page.focus, [page, route]);
  const pinnedPath = useMemo(() => (pinned ? pathOf(lineage, pinned) : null), [lineage, pinned]);
  const active = pointed ?? pinned;
  const path = useMemo(
    () => (active === null || samePort(active, pinned) ? pinnedPath : pathOf(lineage, active)),
    [lineage, active, pinned, pinnedPath],
  );
  const pin = (port: Port) => go(portRoute(page, samePort(port, page.focus) ? null : port));
  const litCells = useMemo(() => cellsOn(page, path), [page, path]);
  return { page, lineage, pinned, active, path, pinnedPath, litCells, point, pin };
}

function cellsOn(page: RunPage, path: Path | null): Set<number> {
  const cells = new Set<number>();
  for (const i of path?.edges.keys() ?? []) {
    const operation = page.edges[i]?.operation ?? null;
    const cell = operation === null ? null : at(page.operations, operation).cell;
    if (cell !== null) cells.add(cell);
  }
  return cells;
}
