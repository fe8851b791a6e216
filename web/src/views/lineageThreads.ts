/** The threads of the lineage graph: resting ones between boxes, lit ones from column through job to column. */

import type { LineageGraph, LineageNode } from "../documents";
import type { Path, Strength } from "../lineage";
import { at, type Port } from "../page";
import { across, rowY } from "../threads";

export interface LineageThread {
  key: string;
  source: string;
  target: string;
  d: string;
  strength: Strength | null;
  isGuessed: boolean;
}

export function lineageThreads(
  graph: LineageGraph,
  path: Path | null,
  columnsOf: (node: number) => string[],
): LineageThread[] {
  const byId = new Map(graph.nodes.map((node) => [node.id, node]));
  const threads = new Map<string, LineageThread>();
  for (const { source, target } of graph.links) {
    const [from, to] = [byId.get(source), byId.get(target)];
    if (!from || !to) continue;
    const d = across({ x: right(from), y: headY(graph, from) }, { x: to.box.x, y: headY(graph, to) });
    threads.set(`${source}>${target}`, {
      key: `${source}>${target}`,
      source,
      target,
      d,
      strength: null,
      isGuessed: false,
    });
  }
  for (const [i, strength] of path?.edges ?? []) {
    const edge = at(graph.edges, i);
    const [from, to] = [at(graph.nodes, edge.source.state), at(graph.nodes, edge.target.state)];
    const job = edge.job === null ? null : at(graph.nodes, edge.job);
    const ends = {
      from: portPoint(graph, edge.source, columnsOf, true),
      to: portPoint(graph, edge.target, columnsOf, false),
    };
    const look = { strength, isGuessed: edge.flag !== null };
    const parts: [LineageNode, LineageNode, string][] = job
      ? [
          [from, job, across(ends.from, { x: job.box.x, y: headY(graph, job) })],
          [job, to, across({ x: right(job), y: headY(graph, job) }, ends.to)],
        ]
      : [[from, to, across(ends.from, ends.to)]];
    for (const [source, target, d] of parts) {
      threads.delete(`${source.id}>${target.id}`);
      const known = threads.get(d);
      if (!known || (known.strength === "indirect" && strength === "direct")) {
        threads.set(d, { key: d, source: source.id, target: target.id, d, ...look });
      }
    }
  }
  return [...threads.values()];
}

function right(node: LineageNode): number {
  return node.box.x + node.box.width;
}

function headY(graph: LineageGraph, node: LineageNode): number {
  return node.box.y + (node.kind === "job" ? node.box.height / 2 : graph.card.head / 2);
}

function portPoint(graph: LineageGraph, port: Port, columnsOf: (node: number) => string[], isRight: boolean) {
  const node = at(graph.nodes, port.state);
  const y = rowY(node.box, graph.card, columnsOf(port.state), port.column);
  return { x: isRight ? right(node) : node.box.x, y };
}

/** The columns that a node has room for: those of the pinned path first, in the order of the schema. */
export function roomyColumns(node: LineageNode, place: number, pinned: Path | null, room: number): string[] {
  const names = node.columns.map((field) => field.name);
  const onPath = [...(pinned?.ports.keys() ?? [])].flatMap((key) => {
    const [state, column] = key.split(/\/(.*)/s, 2);
    return state === `${place}` && column !== undefined && column !== "" ? [column] : [];
  });
  const chosen = new Set([...new Set([...onPath, ...names])].slice(0, room));
  return [...new Set([...names, ...onPath])].filter((name) => chosen.has(name));
}
