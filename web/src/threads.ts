/** Where threads run: from the boxes that the server placed to curves between them. */

import type { Path, Strength } from "./lineage";
import { at, type Box, type CardMetrics, type DataState, type Edge, type LanesView, type RunPage } from "./page";

export interface Point {
  x: number;
  y: number;
}

export interface Thread {
  key: string;
  /** The boxes it joins, as `source>target`. */
  link: string;
  d: string;
  end: Point;
  strength: Strength;
  isGuessed: boolean;
}

/** The lanes in a window of `width`: the cells take what the other two leave. */
export function placed(lanes: LanesView, width: number): { boxes: Record<string, Box>; width: number } {
  const extra = Math.max(0, Math.floor(width - lanes.width));
  const written = new Set(lanes.writes.items.map((i) => `state:${i}`));
  const boxes = Object.entries(lanes.boxes).map(([id, box]): [string, Box] => {
    if (id.startsWith("cell:")) return [id, { ...box, width: box.width + extra }];
    return [id, written.has(id) ? { ...box, x: box.x + extra } : box];
  });
  return { boxes: Object.fromEntries(boxes), width: lanes.width + extra };
}

/** The columns that a card has room for: those of the pinned path first, in the order of the schema. */
export function visibleColumns(state: DataState, place: number, pinned: Path | null, room: number): string[] {
  const names = state.columns.map((field) => field.name);
  if (names.length <= room) return names;
  const onPath = names.filter((name) => pinned?.ports.has(`${place}/${name}`));
  const chosen = new Set([...onPath, ...names].slice(0, room + onPath.length));
  const kept = new Set([...chosen].slice(0, room));
  return names.filter((name) => kept.has(name));
}

/** Height of a column's row in a card; a hidden column stands for the row that counts them. */
export function rowY(box: Box, card: CardMetrics, columns: readonly string[], column: string | null): number {
  if (column === null) return box.y + card.head / 2;
  const row = columns.indexOf(column);
  return box.y + card.head + card.row * (row < 0 ? columns.length : row) + card.row / 2;
}

/** Height of a line of code in a cell's card; a hidden line stands at the cell's name. */
export function lineY(box: Box, lanes: LanesView, shown: readonly number[], line: number | null): number {
  const row = line === null ? -1 : shown.indexOf(line);
  return row < 0 ? box.y + lanes.cell.head / 2 : box.y + lanes.cell.head + lanes.cell.line * (row + 0.5);
}

export function across(from: Point, to: Point): string {
  const bend = Math.max(24, (to.x - from.x) / 2);
  return `M${from.x} ${from.y}C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`;
}

/** From one cell down to another, round the left of what stands between them. */
export function around(from: Point, to: Point): string {
  const bulge = 14 + Math.min(38, Math.abs(to.y - from.y) / 14);
  return `M${from.x} ${from.y}C${from.x - bulge} ${from.y} ${to.x - bulge} ${to.y} ${to.x} ${to.y}`;
}

export interface Stage {
  page: RunPage;
  boxes: Record<string, Box>;
  columnsOf: (state: number) => readonly string[];
}

/** The threads of a path through the three lanes, weaker ones first so that stronger ones lie on top. */
export function litThreads(stage: Stage, path: Path): Thread[] {
  const threads = new Map<string, Thread>();
  for (const [i, strength] of path.edges) {
    const edge = at(stage.page.edges, i);
    for (const thread of edgeThreads(stage, edge, strength)) {
      const known = threads.get(thread.key);
      if (!known || (known.strength === "indirect" && strength === "direct")) threads.set(thread.key, thread);
    }
  }
  return [...threads.values()].toSorted((a, b) => Number(a.strength === "direct") - Number(b.strength === "direct"));
}

function edgeThreads(stage: Stage, edge: Edge, strength: Strength): Thread[] {
  const operation = edge.operation === null ? null : at(stage.page.operations, edge.operation);
  const cell = operation?.cell ?? null;
  if (operation === null || cell === null) return [];
  const box = stage.boxes[`cell:${cell}`];
  if (!box) return [];
  const y = lineY(box, stage.page.lanes, at(stage.page.cells, cell).shownLines, operation.line);
  const look = { strength, isGuessed: edge.flag !== null };
  return [
    ...incoming(stage, edge, cell, { x: box.x, y }, look),
    ...outgoing(stage, edge, cell, { x: box.x + box.width, y }, look),
  ];
}

type Look = Pick<Thread, "strength" | "isGuessed">;

function incoming(stage: Stage, edge: Edge, cell: number, to: Point, look: Look): Thread[] {
  const source = at(stage.page.states, edge.source.state);
  if (source.producer === null) {
    const box = stage.boxes[`state:${edge.source.state}`];
    const link = `state:${edge.source.state}>cell:${cell}`;
    return box
      ? [thread(across, { x: box.x + box.width, y: cardY(stage, box, edge.source) }, to, { ...look, link })]
      : [];
  }
  const maker = at(stage.page.operations, source.producer);
  const box = maker.cell === null || maker.cell === cell ? undefined : stage.boxes[`cell:${maker.cell}`];
  if (!box || maker.cell === null) return [];
  const y = lineY(box, stage.page.lanes, at(stage.page.cells, maker.cell).shownLines, maker.line);
  return [thread(around, { x: box.x, y }, to, { ...look, link: `cell:${maker.cell}>cell:${cell}` })];
}

function outgoing(stage: Stage, edge: Edge, cell: number, from: Point, look: Look): Thread[] {
  const box = stage.page.lanes.writes.items.includes(edge.target.state) && stage.boxes[`state:${edge.target.state}`];
  const link = `cell:${cell}>state:${edge.target.state}`;
  return box ? [thread(across, from, { x: box.x, y: cardY(stage, box, edge.target) }, { ...look, link })] : [];
}

function cardY(stage: Stage, box: Box, port: Edge["source"]): number {
  return rowY(box, stage.page.lanes.card, stage.columnsOf(port.state), port.column);
}

function thread(curve: typeof across, from: Point, to: Point, look: Look & Pick<Thread, "link">): Thread {
  const d = curve(from, to);
  return { key: d, d, end: to, ...look };
}

/** The lines between boxes that are always there. */
export function restingThreads(stage: Stage): { key: string; d: string }[] {
  const { lanes } = stage.page;
  const middle = (id: string, box: Box) => box.y + (id.startsWith("cell:") ? lanes.cell.head : lanes.card.head) / 2;
  return lanes.links.flatMap(({ source, target }) => {
    const [a, b] = [stage.boxes[source], stage.boxes[target]];
    if (!a || !b) return [];
    const isDown = source.startsWith("cell:") && target.startsWith("cell:");
    const from = { x: isDown ? a.x : a.x + a.width, y: middle(source, a) };
    const to = { x: b.x, y: middle(target, b) };
    return [{ key: `${source}>${target}`, d: isDown ? around(from, to) : across(from, to) }];
  });
}

/** What the path says about each operation: the columns it made on the way. */
export function litOperations(page: RunPage, path: Path): Map<number, Map<string, Strength>> {
  const made = new Map<number, Map<string, Strength>>();
  for (const [i, strength] of path.edges) {
    const edge = at(page.edges, i);
    if (edge.operation === null) continue;
    const columns = made.get(edge.operation) ?? new Map<string, Strength>();
    const whole = (edge.subtype ?? "all columns").toLowerCase().replaceAll("_", " ");
    const name = `${edge.target.column ?? whole}${edge.flag ? " (guessed)" : ""}`;
    if (columns.get(name) !== "direct") columns.set(name, strength);
    made.set(edge.operation, columns);
  }
  return made;
}
