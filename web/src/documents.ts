/** The documents of the views, as `clew.query.views` encodes them. */

import type { Box, CardMetrics, EdgeType, Field, Link, Port, RunState } from "./page";

export interface Name {
  namespace: string;
  name: string;
}

export type Facet = Record<string, unknown>;
export type Facets = Record<string, unknown>;

export interface RunLine {
  runUuid: string;
  job: Name | null;
  state: RunState;
  startedAt: string | null;
  endedAt: string | null;
  sessionId: string | null;
  error: string | null;
}

export interface Touch {
  node: Name;
  at: string | null;
  runUuid: string | null;
  state: RunState | null;
  isImplied: boolean;
}

export interface Some<T> {
  items: T[];
  total: number;
}

export interface DatasetLine {
  dataset: Name;
  at: string | null;
  isDeleted: boolean;
  producers: Name[];
}

export interface JobLine {
  job: Name;
  kind: string | null;
  at: string | null;
  state: RunState | null;
  runs: RunLine[];
  runTotal: number;
}

export interface Activity {
  counts: { datasets: number; jobs: number; runs: number; sessions: number };
  runs: Some<RunLine>;
  failed: Some<RunLine>;
  datasets: Some<DatasetLine>;
}

export interface ColumnSource {
  dataset: Name;
  column: string | null;
  type: EdgeType;
  subtype: string | null;
  isGuessed: boolean;
}

export interface Column {
  name: string;
  type: string | null;
  description: string | null;
  sources: ColumnSource[];
}

export interface DatasetVersion {
  version: string | null;
  at: string | null;
  runUuid: string | null;
  job: Name | null;
  rowCount: number | null;
  lifecycle: string | null;
  hasNewSchema: boolean;
}

export interface Series {
  name: string;
  points: { at: string; value: number; runUuid: string | null }[];
}

export interface DatasetView {
  dataset: Name;
  names: Name[];
  isDeleted: boolean;
  at: string | null;
  columns: Column[];
  whole: ColumnSource[];
  facets: Facets;
  described: string | null;
  versions: DatasetVersion[];
  versionTotal: number;
  producers: Touch[];
  consumers: Touch[];
  series: Series[];
}

export interface JobView {
  job: Name;
  kind: string | null;
  integration: string | null;
  description: string | null;
  at: string | null;
  facets: Facets;
  inputs: Touch[];
  outputs: Touch[];
  runs: RunLine[];
  runTotal: number;
}

export interface RunData {
  dataset: Name;
  version: string | null;
  rowCount: number | null;
  isImplied: boolean;
  facets: Facets;
}

export interface RunView {
  run: RunLine;
  error: string | null;
  parent: RunLine | null;
  previous: RunLine | null;
  nominalStart: string | null;
  nominalEnd: string | null;
  facets: Facets;
  jobFacets: Facets;
  inputs: RunData[];
  outputs: RunData[];
  children: RunLine[];
  childTotal: number;
}

export type ChangeKind =
  | "failed"
  | "mended"
  | "rows"
  | "columns"
  | "types"
  | "added"
  | "removed"
  | "lineage"
  | "code"
  | "slower"
  | "faster";

export interface Change {
  kind: ChangeKind;
  label: string;
  before: number | null;
  after: number | null;
  added: string[];
  removed: string[];
  textBefore: string | null;
  textAfter: string | null;
  diff: string | null;
}

export interface RunChanges {
  /** Null where there is no run before. */
  before: string | null;
  after: string;
  beforeAt: string | null;
  afterAt: string | null;
  name: string;
  changes: Change[];
}

export interface LineageNode {
  id: string;
  kind: "dataset" | "job";
  namespace: string;
  name: string;
  label: string;
  box: Box;
  columns: Field[];
  columnTotal: number;
  hiddenUpstream: number;
  hiddenDownstream: number;
  state: RunState | null;
  at: string | null;
  sessionId: string | null;
}

export interface LineageEdge {
  source: Port;
  target: Port;
  type: EdgeType;
  subtype: string | null;
  flag: "opaque" | "inferred" | null;
  job: number | null;
  code: string[];
}

export interface LineageGraph {
  centre: string;
  nodes: LineageNode[];
  links: Link[];
  edges: LineageEdge[];
  groups: { name: string; box: Box }[];
  span: { first: string | null; last: string | null };
  isCut: boolean;
  card: CardMetrics;
}

export interface EventLine {
  seq: number;
  eventId: string;
  receivedAt: string | null;
  type: string | null;
  job: string | null;
  run: string | null;
  detail: string | null;
}

export interface EventList extends Some<EventLine> {
  stream: string;
  older: number | null;
}

export interface Health {
  home: string;
  holder: unknown;
  log: { position: number; end: number; bytes: number; events: number; is_estimate: boolean };
  streams_bytes: number;
  index: { at: string | null; batch: string | null; seq: number | null } | null;
  batches: {
    app: string;
    number: number;
    at_ms: number;
    rows: Record<string, number>;
    seconds: number | null;
    events_per_second: number | null;
  }[];
  rejected: { count: number; open: number | null; last: { source: string; reason: string; detail: string }[] };
  tables: { name: string; rows: number; files: number; bytes: number }[];
  without_facets: number;
}

/** What was found of each kind, and how much there is of it. */
export interface FoundList {
  items: Found[];
  totals: Partial<Record<Found["kind"], number>>;
}

export interface Found {
  kind: "dataset" | "column" | "job" | "run" | "code" | "mention";
  name: Name;
  column: string | null;
  runUuid: string | null;
  sessionId: string | null;
  text: string | null;
  of: "dataset" | "job" | "run" | null;
}
