/** The threads of the graph view: resting ones between boxes, lit ones from column to column. */

import type { Path, Strength } from "./lineage";
import { at, type Box, type Edge, type GraphView, type RunPage } from "./page";
import { across, rowY } from "./threads";
import { type BoxThread, Weave } from "./weave";

type ColumnsOf = (state: number) => readonly string[];

export function graphThreads(page: RunPage, view: GraphView, path: Path | null, columnsOf: ColumnsOf): BoxThread[] {
  const boxes = new Map(view.nodes.map((node) => [node.id, node.box]));
  const weave = new Weave();
  for (const { source, target } of view.links) {
    const [from, to] = [boxes.get(source), boxes.get(target)];
    if (!from || !to) continue;
    const start = { x: from.x + from.width, y: headY(view, source, from) };
    weave.rest(source, target, across(start, { x: to.x, y: headY(view, target, to) }));
  }
  for (const [i, strength] of path?.edges ?? []) {
    light(weave, page, view, boxes, at(page.edges, i), strength, columnsOf);
  }
  return weave.threads();
}

function headY(view: GraphView, id: string, box: Box): number {
  return box.y + (id.startsWith("cell:") ? box.height / 2 : view.card.head / 2);
}

/** A column's way into the cell that uses it, and out of it: states inside the cell have no box and are passed over. */
function light(
  weave: Weave,
  page: RunPage,
  view: GraphView,
  boxes: Map<string, Box>,
  edge: Edge,
  strength: Strength,
  columnsOf: ColumnsOf,
): void {
  const cell = `cell:${edge.operation === null ? null : at(page.operations, edge.operation).cell}`;
  const job = boxes.get(cell);
  if (!job) return;
  const isGuessed = edge.flag !== null;
  const middle = job.y + job.height / 2;
  const [source, target] = [`state:${edge.source.state}`, `state:${edge.target.state}`];
  const [from, to] = [boxes.get(source), boxes.get(target)];
  if (from && linked(view, source, cell)) {
    const y = rowY(from, view.card, columnsOf(edge.source.state), edge.source.column);
    weave.light(source, cell, across({ x: from.x + from.width, y }, { x: job.x, y: middle }), strength, isGuessed);
  }
  if (to && linked(view, cell, target)) {
    const y = rowY(to, view.card, columnsOf(edge.target.state), edge.target.column);
    weave.light(cell, target, across({ x: job.x + job.width, y: middle }, { x: to.x, y }), strength, isGuessed);
  }
}

function linked(view: GraphView, source: string, target: string): boolean {
  return view.links.some((link) => link.source === source && link.target === target);
}
