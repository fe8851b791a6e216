/** A column's answer in words and as a tree, by the same rules as `clew.query.run_page_answer`. */

import { downstreamOf, edgesAt, type Lineage, portKey, type Strength, strengthOf } from "./lineage";
import { type Answer, type AnswerHop, at, type Edge, type Port, type RunPage, type SentencePart } from "./page";

const MAX_CODES = 3;
const MAX_SOURCES = 3;

const VERBS: Record<string, string> = {
  FILTER: "filtered by",
  JOIN: "joined on",
  GROUP_BY: "grouped by",
  SORT: "sorted by",
  WINDOW: "windowed by",
  CONDITIONAL: "depending on",
};

interface Step {
  port: Port;
  edge: Edge;
  verb: string | null;
  isLeaf: boolean;
}

export function answerFor(page: RunPage, lineage: Lineage, port: Port): Answer {
  const given = page.answer;
  if (given && portKey(given.port) === portKey(port)) return given;
  return derivedAnswer(page, lineage, port);
}

/** The answer from the edges of this run alone. */
export function derivedAnswer(page: RunPage, lineage: Lineage, port: Port): Answer {
  return { port, sentence: sentence(page, lineage, port), tree: tree(page, lineage, port, null, new Set()) };
}

function upstream(page: RunPage, lineage: Lineage, port: Port): Edge[] {
  const edges = edgesAt(lineage.into, port).map((i) => at(lineage.edges, i));
  return edges.toSorted((a, b) => compare(order(page, a), order(page, b)));
}

function order(page: RunPage, edge: Edge): [number, string, string] {
  return [Number(edge.type === "INDIRECT"), at(page.states, edge.source.state).label, edge.source.column ?? ""];
}

function compare(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  const i = a.findIndex((value, place) => value !== b[place]);
  return i < 0 ? 0 : at(a, i) < at(b, i) ? -1 : 1;
}

function steps(page: RunPage, lineage: Lineage, root: Port): Step[] {
  const found: Step[] = [];
  const seen = new Set<string>();
  const queue: { port: Port; verb: string | null }[] = [{ port: root, verb: null }];
  for (const { port, verb } of queue) {
    for (const edge of upstream(page, lineage, port)) {
      const own = verbOf(edge);
      const key = `${portKey(edge.source)}|${verb ?? own}|${edge.operation}`;
      if (seen.has(key) || (verb !== null && own !== null)) continue;
      seen.add(key);
      const isLeaf = edgesAt(lineage.into, edge.source).length === 0;
      found.push({ port: edge.source, edge, verb: verb ?? own, isLeaf });
      queue.push({ port: edge.source, verb: verb ?? own });
    }
  }
  return found;
}

/** How a column sways another; null where it makes it. */
export function verbOf(edge: Pick<AnswerHop, "type"> & { subtype?: string | null }): string | null {
  return edge.type === "INDIRECT" ? (VERBS[edge.subtype ?? ""] ?? "depending on") : null;
}

function sentence(page: RunPage, lineage: Lineage, port: Port): SentencePart[] {
  const text = dotted(at(page.states, port.state).label, [port.column ?? "all columns"]);
  const target: SentencePart = { kind: "target", text };
  const found = steps(page, lineage, port);
  if (found.length === 0) {
    const isOutside = at(page.states, port.state).producer === null;
    return [target, { kind: "note", text: isOutside ? "comes from outside this run" : "no source was recorded" }];
  }
  const note: SentencePart = { kind: "note", text: noteOf(found) };
  return [target, ...codes(page, found), ...sources(page, found), ...influences(page, found), note];
}

function codes(page: RunPage, found: Step[]): SentencePart[] {
  const made = found.filter((s) => s.verb === null && s.edge.subtype && s.edge.subtype !== "IDENTITY");
  const unique = [...new Set(made.flatMap((s) => s.edge.operation ?? []))];
  const shown = unique.slice(0, MAX_CODES).map((i): SentencePart => {
    const operation = at(page.operations, i);
    const part: SentencePart = { kind: "code", text: operation.code };
    if (operation.cell !== null) part.cell = operation.cell;
    if (operation.line !== null) part.line = operation.line;
    return part;
  });
  const rest = unique.length - MAX_CODES;
  return rest > 0 ? [...shown, { kind: "code", text: `${rest} more` }] : shown;
}

function sources(page: RunPage, found: Step[]): SentencePart[] {
  const leaves = found.filter((s) => s.verb === null && s.isLeaf).map((s) => s.port);
  return grouped(page, leaves).map((text) => ({ kind: "source", text }));
}

function influences(page: RunPage, found: Step[]): SentencePart[] {
  const byVerb = new Map<string, Port[]>();
  for (const step of found) {
    if (step.verb === null || !step.isLeaf) continue;
    byVerb.set(step.verb, [...(byVerb.get(step.verb) ?? []), step.port]);
  }
  return [...byVerb.keys()].sort().map((verb) => {
    return { kind: "influence", text: `${verb} ${grouped(page, byVerb.get(verb) ?? []).join(", ")}` };
  });
}

function grouped(page: RunPage, ports: Port[]): string[] {
  const columns = new Map<string, Set<string>>();
  for (const port of ports) {
    const label = at(page.states, port.state).label;
    columns.set(label, (columns.get(label) ?? new Set()).add(port.column ?? "unknown column"));
  }
  const texts = [...columns.keys()].sort().map((label) => dotted(label, [...(columns.get(label) ?? [])].sort()));
  const rest = texts.length - MAX_SOURCES;
  return rest > 0 ? [...texts.slice(0, MAX_SOURCES), `${rest} more`] : texts;
}

function dotted(label: string, columns: string[]): string {
  return `${label} · ${columns.join(", ")}`;
}

function noteOf(found: Step[]): string {
  const edges = found.map((step) => step.edge);
  const count = new Set(edges.flatMap((edge) => edge.operation ?? [])).size;
  const guessed = new Set(edges.filter((edge) => edge.flag).map((edge) => edge.operation)).size;
  return `${count} ${count === 1 ? "step" : "steps"}, ${guessed ? `${guessed} guessed` : "all exact"}`;
}

function tree(page: RunPage, lineage: Lineage, port: Port, edge: Edge | null, seen: Set<string>): AnswerHop {
  const hop = described(page, port, edge);
  // A column that only sways another is named, not followed: its own story is a click away.
  const edges = edge?.type === "INDIRECT" ? [] : upstream(page, lineage, port);
  if (edges.length === 0) return hop;
  if (seen.has(portKey(port))) return { ...hop, isRepeated: true };
  seen.add(portKey(port));
  return { ...hop, upstream: edges.map((next) => tree(page, lineage, next.source, next, seen)) };
}

function described(page: RunPage, port: Port, edge: Edge | null): AnswerHop {
  const state = at(page.states, port.state);
  const hop: AnswerHop = { label: state.label, version: state.version, column: port.column };
  if (!edge) return hop;
  hop.type = edge.type;
  if (edge.subtype) hop.subtype = edge.subtype;
  if (edge.flag) hop.flag = edge.flag;
  if (edge.operation === null) return hop;
  const operation = at(page.operations, edge.operation);
  hop.code = operation.code;
  if (operation.cell !== null) hop.cell = operation.cell;
  if (operation.line !== null) hop.line = operation.line;
  return hop;
}

export interface Reach {
  /** Columns of files that hold its values. */
  makes: string[];
  /** Columns of files that it sways. */
  sways: string[];
}

/** What a column ends up in, of all that the run wrote. */
export function reachOf(page: RunPage, lineage: Lineage, port: Port): Reach {
  const written = new Set(page.lanes.writes.items);
  const path = downstreamOf(lineage, port);
  const found = (strength: Strength) => {
    const ports = [...written].flatMap((state) => {
      const names = at(page.states, state).columns.map((field) => field.name);
      return names.filter((name) => strengthOf(path, state, name) === strength).map((column) => ({ state, column }));
    });
    return grouped(page, ports);
  };
  if (written.has(port.state)) return { makes: [], sways: [] };
  return { makes: found("direct"), sways: found("indirect") };
}

/** The tree as lines of text, to copy or to read aloud. */
export function treeText(page: RunPage, hop: AnswerHop, depth = 0): string {
  const own = `${"  ".repeat(depth)}${depth ? "← " : ""}${hopName(hop)}${how(page, hop)}`;
  return [own, ...(hop.upstream ?? []).map((child) => treeText(page, child, depth + 1))].join("\n");
}

export function hopName(hop: AnswerHop): string {
  // A frame that no variable holds is called by its cell and operation, and has but one version.
  const version = hop.version === null || hop.label.includes(": ") ? "" : ` v${hop.version}`;
  return `${hop.label}${version} · ${hop.column ?? "all columns"}`;
}

function how(page: RunPage, hop: AnswerHop): string {
  const words = [hopWay(hop), hopPlace(page, hop), hop.code?.replaceAll(/\s+/g, " ")].filter(Boolean);
  const again = hop.isRepeated ? " (as above)" : "";
  return words.length ? `  [${words.join(" · ")}]${again}` : again;
}

/** How a hop got into the one above it, in a word or two. */
export function hopWay(hop: AnswerHop): string {
  const kind = hop.subtype?.toLowerCase().replaceAll("_", " ") ?? "";
  const way = hop.type === "INDIRECT" ? `${kind || "influence"}, indirect` : kind === "identity" ? "as it is" : kind;
  return hop.flag ? `${way ? `${way}, ` : ""}guessed` : way;
}

export function hopPlace(page: RunPage, hop: AnswerHop): string {
  if (hop.cell === undefined) return "";
  const line = hop.line === undefined ? "" : `, line ${hop.line}`;
  return `cell ${at(page.cells, hop.cell).number}${line}`;
}
