/** The threads of the graph view: resting ones between boxes, lit ones from column to column. */

import type { Path, Strength } from "./lineage";
import { at, type Box, type Edge, type GraphView, type RunPage } from "./page";
import { across, rowY } from "./threads";

export interface GraphThread {
  key: string;
  source: string;
  target: string;
  d: string;
  strength: Strength | null;
  isGuessed: boolean;
}

type ColumnsOf = (state: number) => readonly string[];

export function graphThreads(page: RunPage, view: GraphView, path: Path | null, columnsOf: ColumnsOf): GraphThread[] {
  const boxes = new Map(view.nodes.map((node) => [node.id, node.box]));
  const threads = new Map<string, GraphThread>();
  for (const { source, target } of view.links) {
    const [from, to] = [boxes.get(source), boxes.get(target)];
    if (!from || !to) continue;
    const d = across({ x: from.x + from.width, y: headY(view, source, from) }, { x: to.x, y: headY(view, target, to) });
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
    for (const thread of litThreads(page, view, boxes, at(page.edges, i), strength, columnsOf)) {
      threads.delete(`${thread.source}>${thread.target}`);
      const known = threads.get(thread.key);
      if (!known || (known.strength === "indirect" && strength === "direct")) threads.set(thread.key, thread);
    }
  }
  return [...threads.values()];
}

function headY(view: GraphView, id: string, box: Box): number {
  return box.y + (id.startsWith("cell:") ? box.height / 2 : view.card.head / 2);
}

/** A column's way into the cell that uses it, and out of it: states inside the cell have no box and are passed over. */
function litThreads(
  page: RunPage,
  view: GraphView,
  boxes: Map<string, Box>,
  edge: Edge,
  strength: Strength,
  columnsOf: ColumnsOf,
): GraphThread[] {
  const cell = edge.operation === null ? null : at(page.operations, edge.operation).cell;
  const job = boxes.get(`cell:${cell}`);
  if (!job) return [];
  const look = { strength, isGuessed: edge.flag !== null };
  const middle = job.y + job.height / 2;
  const found: GraphThread[] = [];
  const from = boxes.get(`state:${edge.source.state}`);
  if (from && linked(view, `state:${edge.source.state}`, `cell:${cell}`)) {
    const y = rowY(from, view.card, columnsOf(edge.source.state), edge.source.column);
    const d = across({ x: from.x + from.width, y }, { x: job.x, y: middle });
    found.push({ key: d, source: `state:${edge.source.state}`, target: `cell:${cell}`, d, ...look });
  }
  const to = boxes.get(`state:${edge.target.state}`);
  if (to && linked(view, `cell:${cell}`, `state:${edge.target.state}`)) {
    const y = rowY(to, view.card, columnsOf(edge.target.state), edge.target.column);
    const d = across({ x: job.x + job.width, y: middle }, { x: to.x, y });
    found.push({ key: d, source: `cell:${cell}`, target: `state:${edge.target.state}`, d, ...look });
  }
  return found;
}

function linked(view: GraphView, source: string, target: string): boolean {
  return view.links.some((link) => link.source === source && link.target === target);
}
