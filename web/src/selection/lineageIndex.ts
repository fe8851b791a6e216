/** Column edges indexed by their ends, and the paths through them. */

import { itemAt } from "../api/client";
import type { PageEdge, Port } from "../api/types";

/** How a column is reached: by DIRECT column edges only, or with an INDIRECT or whole-dataset edge among them. */
export type EdgeKind = "direct" | "indirect";

/** The columns and edges on the path of one column. */
export interface Path {
  origin: Port;
  columns: Map<string, EdgeKind>;
  states: Set<number>;
  edges: Map<number, EdgeKind>;
}

export type EdgeLike = Pick<PageEdge, "source" | "target"> & { type: string };

export interface LineageIndex<E extends EdgeLike = EdgeLike> {
  edges: readonly E[];
  incoming: EdgeLookup;
  outgoing: EdgeLookup;
}

interface EdgeLookup {
  byColumn: Map<string, number[]>;
  byState: Map<number, number[]>;
}

export function columnKey(column: Port): string {
  return column.column === null ? `${column.state}` : `${column.state}/${column.column}`;
}

export function isSameColumn(a: Port | null, b: Port | null): boolean {
  return a !== null && b !== null && a.state === b.state && a.column === b.column;
}

export function buildLineageIndex<E extends EdgeLike>(graph: { edges: readonly E[] }): LineageIndex<E> {
  const { edges } = graph;
  return { edges, incoming: buildLookup(edges, "target"), outgoing: buildLookup(edges, "source") };
}

function buildLookup(edges: readonly EdgeLike[], end: "source" | "target"): EdgeLookup {
  const lookup: EdgeLookup = { byColumn: new Map(), byState: new Map() };
  edges.forEach((edge, i) => {
    append(lookup.byColumn, columnKey(edge[end]), i);
    append(lookup.byState, edge[end].state, i);
  });
  return lookup;
}

function append<K>(map: Map<K, number[]>, key: K, value: number): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

/** Edges at a column, including those of the whole dataset. A whole dataset has the edges of all its columns. */
export function edgesAt(lookup: EdgeLookup, column: Port): number[] {
  if (column.column === null) return lookup.byState.get(column.state) ?? [];
  return [...(lookup.byColumn.get(columnKey(column)) ?? []), ...(lookup.byColumn.get(`${column.state}`) ?? [])];
}

/** DIRECT edges before INDIRECT ones. */
export function directFirst(a: EdgeLike, b: EdgeLike): number {
  return Number(a.type === "INDIRECT") - Number(b.type === "INDIRECT");
}

/** Everything upstream and downstream of a column. */
export function columnPath(index: LineageIndex, origin: Port): Path {
  const path = emptyPath(origin);
  traverse(index, index.incoming, "source", path);
  traverse(index, index.outgoing, "target", path);
  return path;
}

export function downstreamPath(index: LineageIndex, origin: Port): Path {
  const path = emptyPath(origin);
  traverse(index, index.outgoing, "target", path);
  return path;
}

function emptyPath(origin: Port): Path {
  return { origin, columns: new Map([[columnKey(origin), "direct"]]), states: new Set(), edges: new Map() };
}

function traverse(index: LineageIndex, lookup: EdgeLookup, end: "source" | "target", path: Path): void {
  const indirect: Port[] = [];
  const seen = new Set<string>();
  visit([path.origin], "direct");
  // INDIRECT after INDIRECT is not followed.
  visit(indirect, "indirect");

  function visit(start: Port[], kind: EdgeKind): void {
    const queue = [...start];
    for (const column of queue) {
      const key = columnKey(column);
      if (seen.has(key)) continue;
      seen.add(key);
      mark(path.columns, key, kind);
      path.states.add(column.state);
      for (const i of edgesAt(lookup, column)) {
        const edge = itemAt(index.edges, i);
        const next = edge[end];
        const isDirect = edge.type === "DIRECT" && edge.source.column !== null && edge.target.column !== null;
        if (kind === "indirect" && edge.type === "INDIRECT") continue;
        mark(path.edges, i, isDirect ? kind : "indirect");
        if (isDirect || kind === "indirect") queue.push(next);
        else indirect.push(next);
      }
    }
  }
}

function mark<K>(map: Map<K, EdgeKind>, key: K, kind: EdgeKind): void {
  if (map.get(key) !== "direct") map.set(key, kind);
}

/** How a column is on a path, undefined if it is not. */
export function kindOnPath(path: Path | null, state: number, column: string): EdgeKind | undefined {
  return path?.columns.get(`${state}/${column}`) ?? path?.columns.get(`${state}`);
}

/** The nearest column upstream or downstream that `accepts`; DIRECT edges are tried first. */
export function nearestColumn(
  index: LineageIndex,
  from: Port,
  direction: "upstream" | "downstream",
  accepts: (column: Port) => boolean,
): Port | null {
  const isUpstream = direction === "upstream";
  const queue = [from];
  const seen = new Set([columnKey(from)]);
  for (const column of queue) {
    if (column !== from && accepts(column)) return column;
    const edges = edgesAt(isUpstream ? index.incoming : index.outgoing, column).map((i) => itemAt(index.edges, i));
    for (const edge of edges.toSorted(directFirst)) {
      const next = isUpstream ? edge.source : edge.target;
      if (seen.has(columnKey(next))) continue;
      seen.add(columnKey(next));
      queue.push(next);
    }
  }
  return null;
}
