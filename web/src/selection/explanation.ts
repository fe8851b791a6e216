/** The explanation of a column as a sentence and as a tree, by the same rules as the server's. */

import { itemAt } from "../api/client";
import type { ColumnExplanation, ExplanationStep, PageEdge, Port, RunPage, SentencePart } from "../api/types";
import { formatConstant } from "../format";
import { columnKey, downstreamPath, type EdgeKind, edgesAt, kindOnPath, type LineageIndex } from "./lineageIndex";

const MAX_CODES = 3;
const MAX_SOURCES = 3;

const PHRASES: Record<string, string> = {
  FILTER: "filtered by",
  JOIN: "joined on",
  GROUP_BY: "grouped by",
  SORT: "sorted by",
  WINDOW: "windowed by",
  CONDITIONAL: "depending on",
};

interface Step {
  column: Port;
  edge: PageEdge;
  phrase: string | null;
  isLeaf: boolean;
}

export function explanationFor(page: RunPage, index: LineageIndex<PageEdge>, column: Port): ColumnExplanation {
  const served = page.explanation;
  if (served && columnKey(served.port) === columnKey(column)) return served;
  return deriveExplanation(page, index, column);
}

/** The explanation from the edges of this run alone. */
export function deriveExplanation(page: RunPage, index: LineageIndex<PageEdge>, column: Port): ColumnExplanation {
  return { port: column, sentence: sentence(page, index, column), tree: tree(page, index, column, null, new Set()) };
}

function upstreamEdges(page: RunPage, index: LineageIndex<PageEdge>, column: Port): PageEdge[] {
  const edges = edgesAt(index.incoming, column).map((i) => itemAt(index.edges, i));
  return edges.toSorted((a, b) => compare(sortKey(page, a), sortKey(page, b)));
}

function sortKey(page: RunPage, edge: PageEdge): [number, string, string] {
  return [Number(edge.type === "INDIRECT"), itemAt(page.states, edge.source.state).label, edge.source.column ?? ""];
}

function compare(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  const i = a.findIndex((value, j) => value !== b[j]);
  return i < 0 ? 0 : itemAt(a, i) < itemAt(b, i) ? -1 : 1;
}

function collectSteps(page: RunPage, index: LineageIndex<PageEdge>, root: Port): Step[] {
  const steps: Step[] = [];
  const seen = new Set<string>();
  const queue: { column: Port; phrase: string | null }[] = [{ column: root, phrase: null }];
  for (const { column, phrase } of queue) {
    for (const edge of upstreamEdges(page, index, column)) {
      const own = phraseFor(edge);
      const key = `${columnKey(edge.source)}|${phrase ?? own}|${edge.operation}`;
      if (seen.has(key) || (phrase !== null && own !== null)) continue;
      seen.add(key);
      const isLeaf = edgesAt(index.incoming, edge.source).length === 0;
      steps.push({ column: edge.source, edge, phrase: phrase ?? own, isLeaf });
      queue.push({ column: edge.source, phrase: phrase ?? own });
    }
  }
  return steps;
}

/** How an INDIRECT edge affects its target, null for a DIRECT one. */
export function phraseFor(edge: { type?: string; subtype?: string | null }): string | null {
  return edge.type === "INDIRECT" ? (PHRASES[edge.subtype ?? ""] ?? "depending on") : null;
}

function sentence(page: RunPage, index: LineageIndex<PageEdge>, column: Port): SentencePart[] {
  const state = itemAt(page.states, column.state);
  const target: SentencePart = { kind: "target", text: dotted(state.label, [column.column ?? "all columns"]) };
  const steps = collectSteps(page, index, column);
  if (steps.length === 0) {
    const text = state.producer === null ? "comes from outside this run" : "no source was recorded";
    return [target, { kind: "summary", text }];
  }
  const summary: SentencePart = { kind: "summary", text: stepSummary(steps) };
  return [target, ...codeParts(page, steps), ...sourceParts(page, steps), ...indirectParts(page, steps), summary];
}

function codeParts(page: RunPage, steps: Step[]): SentencePart[] {
  const direct = steps.filter((s) => s.phrase === null && s.edge.subtype && s.edge.subtype !== "IDENTITY");
  const unique = [...new Set(direct.flatMap((s) => s.edge.operation ?? []))];
  const parts = unique.slice(0, MAX_CODES).map((i): SentencePart => {
    const operation = itemAt(page.operations, i);
    const part: SentencePart = { kind: "code", text: operation.code };
    if (operation.cell !== null) part.cell = operation.cell;
    if (operation.line !== null) part.line = operation.line;
    return part;
  });
  const rest = unique.length - MAX_CODES;
  return rest > 0 ? [...parts, { kind: "code", text: `${rest} more` }] : parts;
}

function sourceParts(page: RunPage, steps: Step[]): SentencePart[] {
  const leaves = steps.filter((s) => s.phrase === null && s.isLeaf).map((s) => s.column);
  return groupByDataset(page, leaves).map((text) => ({ kind: "source", text }));
}

function indirectParts(page: RunPage, steps: Step[]): SentencePart[] {
  const byPhrase = new Map<string, Port[]>();
  for (const step of steps) {
    if (step.phrase === null || !step.isLeaf) continue;
    byPhrase.set(step.phrase, [...(byPhrase.get(step.phrase) ?? []), step.column]);
  }
  return [...byPhrase.keys()].sort().map((phrase) => {
    return { kind: "indirect", text: `${phrase} ${groupByDataset(page, byPhrase.get(phrase) ?? []).join(", ")}` };
  });
}

function groupByDataset(page: RunPage, columns: Port[]): string[] {
  const names = new Map<string, Set<string>>();
  for (const { state, column } of columns) {
    const label = itemAt(page.states, state).label;
    names.set(label, (names.get(label) ?? new Set()).add(column ?? "unknown column"));
  }
  const texts = [...names.keys()].sort().map((label) => dotted(label, [...(names.get(label) ?? [])].sort()));
  const rest = texts.length - MAX_SOURCES;
  return rest > 0 ? [...texts.slice(0, MAX_SOURCES), `${rest} more`] : texts;
}

function dotted(label: string, columns: string[]): string {
  return `${label} · ${columns.join(", ")}`;
}

function stepSummary(steps: Step[]): string {
  const edges = steps.map((step) => step.edge);
  const count = new Set(edges.flatMap((edge) => edge.operation ?? [])).size;
  const inferred = new Set(edges.filter((edge) => edge.flag).map((edge) => edge.operation)).size;
  return `${count} ${count === 1 ? "step" : "steps"}, ${inferred ? `${inferred} inferred` : "all exact"}`;
}

function tree(
  page: RunPage,
  index: LineageIndex<PageEdge>,
  column: Port,
  edge: PageEdge | null,
  seen: Set<string>,
): ExplanationStep {
  const hop = describeHop(page, column, edge);
  // The source of an INDIRECT edge is named, but its own upstream is not followed.
  const edges = edge?.type === "INDIRECT" ? [] : upstreamEdges(page, index, column);
  if (edges.length === 0) return hop;
  if (seen.has(columnKey(column))) return { ...hop, isRepeated: true };
  seen.add(columnKey(column));
  return { ...hop, upstream: edges.map((next) => tree(page, index, next.source, next, seen)) };
}

function describeHop(page: RunPage, column: Port, edge: PageEdge | null): ExplanationStep {
  const state = itemAt(page.states, column.state);
  const hop: ExplanationStep = { label: state.label, version: state.version, column: column.column };
  if (!edge) return hop;
  hop.type = edge.type;
  if (edge.subtype) hop.subtype = edge.subtype;
  if (edge.flag) hop.flag = edge.flag;
  if (edge.operation === null) return hop;
  const operation = itemAt(page.operations, edge.operation);
  hop.code = operation.code;
  if (operation.cell !== null) hop.cell = operation.cell;
  if (operation.line !== null) hop.line = operation.line;
  return hop;
}

/** Columns of the files written by a run that depend on a column. */
export interface Impact {
  direct: string[];
  indirect: string[];
}

export function impactOf(page: RunPage, index: LineageIndex<PageEdge>, column: Port): Impact {
  const written = page.lanes.writes.items;
  if (written.includes(column.state)) return { direct: [], indirect: [] };
  const path = downstreamPath(index, column);
  const reached = (kind: EdgeKind) => {
    const columns = written.flatMap((state) => {
      const names = itemAt(page.states, state).columns.map((field) => field.name);
      return names.filter((name) => kindOnPath(path, state, name) === kind).map((name) => ({ state, column: name }));
    });
    return groupByDataset(page, columns);
  };
  return { direct: reached("direct"), indirect: reached("indirect") };
}

/** The tree as indented lines of text. */
export function treeText(page: RunPage, hop: ExplanationStep, depth = 0): string {
  const line = `${"  ".repeat(depth)}${depth ? "← " : ""}${hopLabel(hop)}${hopDetails(page, hop)}`;
  return [line, ...(hop.upstream ?? []).map((child) => treeText(page, child, depth + 1))].join("\n");
}

export function hopLabel(hop: ExplanationStep): string {
  // A frame without a variable is labelled "cell: operation" and has one version only.
  const version = hop.version === null || hop.label.includes(": ") ? "" : ` v${hop.version}`;
  return `${hop.label}${version} · ${hop.column ?? "all columns"}`;
}

function hopDetails(page: RunPage, hop: ExplanationStep): string {
  const details = [transformationLabel(hop), hopLocation(page, hop), hop.code?.replaceAll(/\s+/g, " ")].filter(Boolean);
  const repeated = hop.isRepeated ? " (see above)" : "";
  return details.length ? `  [${details.join(" · ")}]${repeated}` : repeated;
}

/** The transformation of an edge in a few words: "filter, indirect". */
export function transformationLabel(edge: { type?: string; subtype?: string | null; flag?: string | null }): string {
  const parts = [
    edge.subtype && formatConstant(edge.subtype),
    edge.type === "INDIRECT" && "indirect",
    edge.flag && "inferred",
  ];
  return parts.filter(Boolean).join(", ");
}

export function hopLocation(page: RunPage, hop: ExplanationStep): string {
  if (hop.cell === undefined) return "";
  const line = hop.line === undefined ? "" : `, line ${hop.line}`;
  return `cell ${itemAt(page.cells, hop.cell).number}${line}`;
}
