/** The threads of the lineage graph: resting ones between boxes, lit ones from column through job to column. */

import type { LineageGraph, LineageNode } from "../documents";
import type { Path } from "../lineage";
import { at, type Port } from "../page";
import { across, rowY } from "../threads";
import { type BoxThread, Weave } from "../weave";

export function lineageThreads(
  graph: LineageGraph,
  path: Path | null,
  columnsOf: (node: number) => string[],
): BoxThread[] {
  const byId = new Map(graph.nodes.map((node) => [node.id, node]));
  const weave = new Weave();
  for (const { source, target } of graph.links) {
    const [from, to] = [byId.get(source), byId.get(target)];
    if (!from || !to) continue;
    weave.rest(source, target, across({ x: right(from), y: headY(graph, from) }, { x: to.box.x, y: headY(graph, to) }));
  }
  for (const [i, strength] of path?.edges ?? []) {
    const edge = at(graph.edges, i);
    const [from, to] = [at(graph.nodes, edge.source.state), at(graph.nodes, edge.target.state)];
    const job = edge.job === null ? null : at(graph.nodes, edge.job);
    const start = portPoint(graph, edge.source, columnsOf, true);
    const end = portPoint(graph, edge.target, columnsOf, false);
    const isGuessed = edge.flag !== null;
    if (job) {
      const y = headY(graph, job);
      weave.light(from.id, job.id, across(start, { x: job.box.x, y }), strength, isGuessed);
      weave.light(job.id, to.id, across({ x: right(job), y }, end), strength, isGuessed);
    } else {
      weave.light(from.id, to.id, across(start, end), strength, isGuessed);
    }
  }
  return weave.threads();
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
