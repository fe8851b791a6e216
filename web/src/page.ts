/** The document that the page is drawn from, as `clew.query.run_page` encodes it. */

export type EdgeType = "DIRECT" | "INDIRECT";
export type Flag = "opaque" | "inferred";
export type RunState = "NEW" | "RUNNING" | "COMPLETED" | "FAILED" | "ABORTED";
export type CellState = "completed" | "failed" | "stopped" | "running" | "lost";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Header {
  sessionId: string;
  notebook: string;
  state: RunState;
  startedAt: string | null;
  durationMs: number | null;
  cellCount: number;
  failedCount: number;
  peakMemoryMb: number | null;
}

export interface Field {
  name: string;
  type: string | null;
}

export interface DataState {
  namespace: string;
  name: string;
  label: string;
  kind: "file" | "frame";
  version: string | null;
  rowCount: number | null;
  columns: Field[];
  producer: number | null;
}

export interface Operation {
  cell: number | null;
  method: string;
  kind: string;
  code: string;
  line: number | null;
  startedAt: string | null;
  durationMs: number | null;
  state: RunState;
  inputs: number[];
  outputs: number[];
}

export interface CellError {
  type: string;
  message: string;
  traceback: string;
  line: number | null;
}

export interface Cell {
  executionId: string;
  cellId: string;
  number: number;
  title: string;
  state: CellState;
  source: string;
  shownLines: number[];
  error: CellError | null;
  startedAt: string | null;
  durationMs: number | null;
  offset: number;
  share: number;
  startMemoryMb: number | null;
  endMemoryMb: number | null;
  frames: number[];
}

/** A column of a state; null stands for the whole of it. */
export interface Port {
  state: number;
  column: string | null;
}

export interface Edge {
  source: Port;
  target: Port;
  type: EdgeType;
  subtype: string | null;
  flag: Flag | null;
  operation: number | null;
}

export interface Link {
  source: string;
  target: string;
  states: number[];
}

export interface Lane {
  items: number[];
  total: number;
}

export interface CardMetrics {
  head: number;
  row: number;
  maxRows: number;
}

export interface LanesView {
  reads: Lane;
  cells: Lane;
  writes: Lane;
  links: Link[];
  boxes: Record<string, Box>;
  width: number;
  height: number;
  card: CardMetrics;
  cell: { head: number; line: number; ports: number };
}

export interface GraphNode {
  id: string;
  box: Box;
  hiddenUpstream: number;
  hiddenDownstream: number;
}

export type Scope = "hop" | "session";

export interface GraphView {
  scope: Scope;
  centre: number | null;
  nodes: GraphNode[];
  links: Link[];
  total: number;
  card: CardMetrics;
}

export interface SentencePart {
  kind: "target" | "code" | "source" | "influence" | "note";
  text: string;
  cell?: number;
  line?: number;
}

export interface AnswerHop {
  label: string;
  version: string | null;
  column: string | null;
  type?: EdgeType;
  subtype?: string;
  flag?: Flag;
  cell?: number;
  line?: number;
  code?: string;
  upstream?: AnswerHop[];
  isRepeated?: boolean;
}

export interface Answer {
  port: Port;
  sentence: SentencePart[];
  tree: AnswerHop;
}

export interface RunPage {
  format: 1;
  header: Header;
  focus: Port | null;
  answer: Answer | null;
  states: DataState[];
  operations: Operation[];
  cells: Cell[];
  edges: Edge[];
  edgeTotal: number;
  lanes: LanesView;
  graphs: GraphView[];
}

export interface RunSummary {
  sessionId: string;
  notebook: string;
  state: RunState;
  startedAt: string | null;
}

/** Item `i` of a list that the document promises to hold it. */
export function at<T>(items: readonly T[], i: number): T {
  const item = items[i];
  if (item === undefined) throw new RangeError(`The document names item ${i} of a list of ${items.length}.`);
  return item;
}
