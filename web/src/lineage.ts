import { at, type Edge, type Port } from "./page";

/** How a column is reached: by DIRECT edges all the way, or with an INDIRECT or a guessed one among them. */
export type Strength = "direct" | "indirect";

/** The columns and edges that belong to one column's path. */
export interface Path {
  origin: Port;
  ports: Map<string, Strength>;
  states: Set<number>;
  edges: Map<number, Strength>;
}

/** What a path needs to know of an edge. */
export type Way = Pick<Edge, "source" | "target" | "type">;

/** Edges by the port and by the state they lead to and come from. */
export interface Lineage<E extends Way = Edge> {
  edges: readonly E[];
  into: Ends;
  outOf: Ends;
}

interface Ends {
  port: Map<string, number[]>;
  state: Map<number, number[]>;
}

export function portKey(port: Port): string {
  return port.column === null ? `${port.state}` : `${port.state}/${port.column}`;
}

export function samePort(a: Port | null, b: Port | null): boolean {
  return a !== null && b !== null && a.state === b.state && a.column === b.column;
}

export function lineageOf<E extends Way>(page: { edges: readonly E[] }): Lineage<E> {
  return { edges: page.edges, into: ends(page.edges, "target"), outOf: ends(page.edges, "source") };
}

function ends(edges: readonly Way[], side: "source" | "target"): Ends {
  const found: Ends = { port: new Map(), state: new Map() };
  edges.forEach((edge, i) => {
    push(found.port, portKey(edge[side]), i);
    push(found.state, edge[side].state, i);
  });
  return found;
}

function push<K>(map: Map<K, number[]>, key: K, value: number): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

/** Edges at a port. What holds for the whole dataset holds for each column; the whole has the edges of all. */
export function edgesAt(side: Ends, port: Port): number[] {
  if (port.column === null) return side.state.get(port.state) ?? [];
  return [...(side.port.get(portKey(port)) ?? []), ...(side.port.get(`${port.state}`) ?? [])];
}

/** Everything that makes or sways a column, and everything it makes or sways. */
export function pathOf(lineage: Lineage<Way>, origin: Port): Path {
  const path = emptyPath(origin);
  walk(lineage, lineage.into, "source", path);
  walk(lineage, lineage.outOf, "target", path);
  return path;
}

/** Everything that a column makes or sways. */
export function downstreamOf(lineage: Lineage<Way>, origin: Port): Path {
  const path = emptyPath(origin);
  walk(lineage, lineage.outOf, "target", path);
  return path;
}

function emptyPath(origin: Port): Path {
  return { origin, ports: new Map([[portKey(origin), "direct"]]), states: new Set(), edges: new Map() };
}

function walk(lineage: Lineage<Way>, side: Ends, end: "source" | "target", path: Path): void {
  const swayed: Port[] = [];
  const seen = new Set<string>();
  spread([path.origin], "direct");
  // What sways a column that only sways ours is two steps removed: only DIRECT edges are followed from here.
  spread(swayed, "indirect");

  function spread(start: Port[], strength: Strength): void {
    const queue = [...start];
    for (const port of queue) {
      const key = portKey(port);
      if (seen.has(key)) continue;
      seen.add(key);
      mark(path.ports, key, strength);
      path.states.add(port.state);
      for (const i of edgesAt(side, port)) {
        const edge = at(lineage.edges, i);
        const next = edge[end];
        const certain = edge.type === "DIRECT" && edge.source.column !== null && edge.target.column !== null;
        if (strength === "indirect" && edge.type === "INDIRECT") continue;
        mark(path.edges, i, certain ? strength : "indirect");
        if (certain || strength === "indirect") queue.push(next);
        else swayed.push(next);
      }
    }
  }
}

function mark<K>(map: Map<K, Strength>, key: K, strength: Strength): void {
  if (map.get(key) !== "direct") map.set(key, strength);
}

/** How a column of a state is lit, if at all. */
export function strengthOf(path: Path | null, state: number, column: string): Strength | undefined {
  return path?.ports.get(`${state}/${column}`) ?? path?.ports.get(`${state}`);
}

/** The nearest columns upstream or downstream of a port for which `accepts` holds; DIRECT ways first. */
export function nearest(
  lineage: Lineage<Way>,
  from: Port,
  way: "up" | "down",
  accepts: (port: Port) => boolean,
): Port | null {
  const [side, end] = way === "up" ? [lineage.into, "source" as const] : [lineage.outOf, "target" as const];
  const queue = [from];
  const seen = new Set([portKey(from)]);
  for (const port of queue) {
    if (port !== from && accepts(port)) return port;
    const edges = edgesAt(side, port).map((i) => at(lineage.edges, i));
    for (const edge of edges.toSorted((a, b) => Number(a.type === "INDIRECT") - Number(b.type === "INDIRECT"))) {
      const next = edge[end];
      if (seen.has(portKey(next))) continue;
      seen.add(portKey(next));
      queue.push(next);
    }
  }
  return null;
}
