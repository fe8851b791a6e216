/** Geometry of edges: SVG paths between the boxes that the server laid out. */

import { itemAt } from "../api/client";
import type {
  Box,
  CardMetrics,
  LanesView,
  LineageGraphEdge,
  LineageGraphView,
  PageEdge,
  PageGraphView,
  PageLink,
  Port,
  RunPage,
} from "../api/types";
import type { EdgeKind, Path } from "../selection/lineageIndex";

export interface Point {
  x: number;
  y: number;
}

interface Segment {
  source: string;
  target: string;
  d: string;
  end: Point;
}

/** An edge to draw: idle between two boxes (`kind` is null), or highlighted between two columns. */
export interface EdgePath extends Segment {
  key: string;
  kind: EdgeKind | null;
  isInferred: boolean;
}

type ColumnsOf = (state: number) => readonly string[];
type Curve = (from: Point, to: Point) => string;

/** Idle edges, of which each is replaced by the highlighted edges between the same boxes. */
class EdgeLayer {
  readonly #edges = new Map<string, EdgePath>();

  addIdle(segment: Segment): void {
    const key = linkKey(segment);
    this.#edges.set(key, { ...segment, key, kind: null, isInferred: false });
  }

  /** Of several edges along the same curve a direct one is drawn. */
  addHighlighted(segment: Segment, kind: EdgeKind, isInferred: boolean): void {
    this.#edges.delete(linkKey(segment));
    const existing = this.#edges.get(segment.d);
    if (existing && (existing.kind !== "indirect" || kind !== "direct")) return;
    this.#edges.set(segment.d, { ...segment, key: segment.d, kind, isInferred });
  }

  /** Idle edges, then indirect, then direct ones: later edges are drawn on top. */
  paths(): EdgePath[] {
    return [...this.#edges.values()].toSorted((a, b) => drawOrder(a) - drawOrder(b));
  }
}

export function drawOrder({ kind }: EdgePath): number {
  return kind === "direct" ? 2 : kind === "indirect" ? 1 : 0;
}

function linkKey({ source, target }: { source: string; target: string }): string {
  return `${source}>${target}`;
}

function segment(source: string, target: string, curve: Curve, from: Point, to: Point): Segment {
  return { source, target, d: curve(from, to), end: to };
}

function horizontalCurve(from: Point, to: Point): string {
  const bend = Math.max(24, (to.x - from.x) / 2);
  return `M${from.x} ${from.y}C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`;
}

/** From one cell down to another, around the left side of the cells between them. */
function sideCurve(from: Point, to: Point): string {
  const bulge = 14 + Math.min(38, Math.abs(to.y - from.y) / 14);
  return `M${from.x} ${from.y}C${from.x - bulge} ${from.y} ${to.x - bulge} ${to.y} ${to.x} ${to.y}`;
}

/** The y of a column's row in a card. A hidden column is at the row that counts the hidden ones. */
export function rowY(box: Box, card: CardMetrics, columns: readonly string[], column: string | null): number {
  if (column === null) return box.y + card.head / 2;
  const row = columns.indexOf(column);
  return box.y + card.head + card.row * (row < 0 ? columns.length : row) + card.row / 2;
}

/** The y of a line of code in a cell's card. A hidden line is at the cell's head. */
function lineY(box: Box, lanes: LanesView, shown: readonly number[], line: number | null): number {
  const row = line === null ? -1 : shown.indexOf(line);
  return row < 0 ? box.y + lanes.cell.head / 2 : box.y + lanes.cell.head + lanes.cell.line * (row + 0.5);
}

function right(box: Box): number {
  return box.x + box.width;
}

/* Lanes of a run */

export interface LaneLayout {
  page: RunPage;
  boxes: Record<string, Box>;
  columnsOf: ColumnsOf;
}

export function laneEdges(layout: LaneLayout, path: Path | null): EdgePath[] {
  const { page, boxes } = layout;
  const layer = new EdgeLayer();
  for (const { source, target } of page.lanes.links) {
    const [from, to] = [boxes[source], boxes[target]];
    if (!from || !to) continue;
    const isDown = source.startsWith("cell:") && target.startsWith("cell:");
    const start = { x: isDown ? from.x : right(from), y: laneHeadY(page.lanes, source, from) };
    const end = { x: to.x, y: laneHeadY(page.lanes, target, to) };
    layer.addIdle(segment(source, target, isDown ? sideCurve : horizontalCurve, start, end));
  }
  for (const [i, kind] of path?.edges ?? []) {
    const edge = itemAt(page.edges, i);
    for (const part of laneSegments(layout, edge)) layer.addHighlighted(part, kind, edge.flag !== null);
  }
  return layer.paths();
}

function laneHeadY(lanes: LanesView, id: string, box: Box): number {
  return box.y + (id.startsWith("cell:") ? lanes.cell.head : lanes.card.head) / 2;
}

/** An edge goes through the line of code that made it: into the cell from its source, and out of it to a written file. */
function laneSegments(layout: LaneLayout, edge: PageEdge): Segment[] {
  const { page, boxes } = layout;
  const operation = edge.operation === null ? null : itemAt(page.operations, edge.operation);
  const cell = operation?.cell ?? null;
  const box = boxes[`cell:${cell}`];
  if (operation === null || cell === null || !box) return [];
  const y = lineY(box, page.lanes, itemAt(page.cells, cell).shownLines, operation.line);
  return [
    ...incomingSegment(layout, edge.source, cell, { x: box.x, y }),
    ...outgoingSegment(layout, edge.target, cell, { x: right(box), y }),
  ];
}

function incomingSegment(layout: LaneLayout, source: Port, cell: number, to: Point): Segment[] {
  const { page, boxes } = layout;
  const { producer } = itemAt(page.states, source.state);
  if (producer === null) {
    const box = boxes[`state:${source.state}`];
    if (!box) return [];
    const from = { x: right(box), y: laneRowY(layout, box, source) };
    return [segment(`state:${source.state}`, `cell:${cell}`, horizontalCurve, from, to)];
  }
  const operation = itemAt(page.operations, producer);
  const box = operation.cell === null || operation.cell === cell ? undefined : boxes[`cell:${operation.cell}`];
  if (!box || operation.cell === null) return [];
  const y = lineY(box, page.lanes, itemAt(page.cells, operation.cell).shownLines, operation.line);
  return [segment(`cell:${operation.cell}`, `cell:${cell}`, sideCurve, { x: box.x, y }, to)];
}

function outgoingSegment(layout: LaneLayout, target: Port, cell: number, from: Point): Segment[] {
  const { page, boxes } = layout;
  const box = page.lanes.writes.items.includes(target.state) ? boxes[`state:${target.state}`] : undefined;
  if (!box) return [];
  const to = { x: box.x, y: laneRowY(layout, box, target) };
  return [segment(`cell:${cell}`, `state:${target.state}`, horizontalCurve, from, to)];
}

function laneRowY({ page, columnsOf }: LaneLayout, box: Box, column: Port): number {
  return rowY(box, page.lanes.card, columnsOf(column.state), column.column);
}

/* Graphs of datasets and jobs (or cells) */

/** A part of a column edge: between a column of a dataset and a job (null), or between two columns. */
interface Hop {
  source: string;
  target: string;
  from: Port | null;
  to: Port | null;
}

interface GraphLayout<E> {
  boxes: ReadonlyMap<string, Box>;
  isJob: (id: string) => boolean;
  links: readonly PageLink[];
  card: CardMetrics;
  columnsOf: ColumnsOf;
  edges: readonly E[];
  hopsOf: (edge: E) => Hop[];
}

/** Edges of a run's graph. States inside a cell have no box, and their edges are not drawn. */
export function runGraphEdges(page: RunPage, view: PageGraphView, path: Path | null, columnsOf: ColumnsOf): EdgePath[] {
  const boxes = new Map(view.nodes.map((node) => [node.id, node.box]));
  const links = new Set(view.links.map(linkKey));
  const hopsOf = (edge: PageEdge): Hop[] => {
    const cell = `cell:${edge.operation === null ? null : itemAt(page.operations, edge.operation).cell}`;
    const hops = [
      { source: `state:${edge.source.state}`, target: cell, from: edge.source, to: null },
      { source: cell, target: `state:${edge.target.state}`, from: null, to: edge.target },
    ];
    return hops.filter((hop) => links.has(linkKey(hop)));
  };
  const isJob = (id: string) => id.startsWith("cell:");
  return graphEdges({ boxes, isJob, links: view.links, card: view.card, columnsOf, edges: page.edges, hopsOf }, path);
}

export function lineageGraphEdges(graph: LineageGraphView, path: Path | null, columnsOf: ColumnsOf): EdgePath[] {
  const { nodes, links, card, edges } = graph;
  const boxes = new Map(nodes.map((node) => [node.id, node.box]));
  const jobs = new Set(nodes.filter((node) => node.kind === "job").map((node) => node.id));
  const hopsOf = (edge: LineageGraphEdge): Hop[] => {
    const [source, target] = [itemAt(nodes, edge.source.state).id, itemAt(nodes, edge.target.state).id];
    if (edge.job === null) return [{ source, target, from: edge.source, to: edge.target }];
    const job = itemAt(nodes, edge.job).id;
    return [
      { source, target: job, from: edge.source, to: null },
      { source: job, target, from: null, to: edge.target },
    ];
  };
  return graphEdges({ boxes, isJob: (id) => jobs.has(id), links, card, columnsOf, edges, hopsOf }, path);
}

function graphEdges<E extends { flag: string | null }>(layout: GraphLayout<E>, path: Path | null): EdgePath[] {
  const layer = new EdgeLayer();
  for (const { source, target } of layout.links) {
    const [from, to] = [layout.boxes.get(source), layout.boxes.get(target)];
    if (!from || !to) continue;
    const start = { x: right(from), y: nodeHeadY(layout, source, from) };
    const end = { x: to.x, y: nodeHeadY(layout, target, to) };
    layer.addIdle(segment(source, target, horizontalCurve, start, end));
  }
  for (const [i, kind] of path?.edges ?? []) {
    const edge = itemAt(layout.edges, i);
    for (const { source, target, from, to } of layout.hopsOf(edge)) {
      const [fromBox, toBox] = [layout.boxes.get(source), layout.boxes.get(target)];
      if (!fromBox || !toBox) continue;
      const start = { x: right(fromBox), y: columnY(layout, source, fromBox, from) };
      const end = { x: toBox.x, y: columnY(layout, target, toBox, to) };
      layer.addHighlighted(segment(source, target, horizontalCurve, start, end), kind, edge.flag !== null);
    }
  }
  return layer.paths();
}

function nodeHeadY<E>({ isJob, card }: GraphLayout<E>, id: string, box: Box): number {
  return box.y + (isJob(id) ? box.height / 2 : card.head / 2);
}

function columnY<E>(layout: GraphLayout<E>, id: string, box: Box, column: Port | null): number {
  if (column === null) return nodeHeadY(layout, id, box);
  return rowY(box, layout.card, layout.columnsOf(column.state), column.column);
}
