/** Types of the JSON documents behind the web UI.
 *
 * Generated from the msgspec Structs by scripts/generate_web_types.py. Do not edit.
 */

export type RunState = "NEW" | "RUNNING" | "COMPLETED" | "FAILED" | "ABORTED";
export type CellState = "completed" | "failed" | "stopped" | "running" | "lost";
export type EdgeType = "DIRECT" | "INDIRECT";
export type EdgeFlag = "opaque" | "inferred";
export type ChangeKind = "failed" | "recovered" | "rows" | "columns" | "types" | "added" | "removed" | "lineage" | "code" | "slower" | "faster";
export type NodeKind = "dataset" | "job";
export type SearchResultKind = "dataset" | "column" | "job" | "run" | "code" | "text_match";

/** The page of one run. */
export interface RunPage {
  format: 1;
  header: PageHeader;
  focus: Port | null;
  explanation: ColumnExplanation | null;
  states: PageState[];
  operations: PageOperation[];
  cells: PageCell[];
  edges: PageEdge[];
  edgeTotal: number;
  lanes: LanesView;
  graphs: PageGraphView[];
}

/** Newest notebook runs and their total number. */
export interface NotebookRunList {
  runs: SessionSummary[];
  total: number;
}

/** Recent activity: the home page when there is no notebook run. */
export interface Activity {
  counts: Counts;
  runs: RunListView;
  failed: RunListView;
  datasets: DatasetListView;
}

/** A page of datasets. */
export interface DatasetListView {
  items: DatasetListItem[];
  total: number;
}

/** A page of jobs. */
export interface JobListView {
  items: JobListItem[];
  total: number;
}

/** A page of runs. */
export interface RunListView {
  items: RunListItem[];
  total: number;
}

/** Content of the dataset page. */
export interface DatasetView {
  dataset: EntityName;
  aliases: EntityName[];
  isDeleted: boolean;
  at: string | null;
  columns: DatasetColumn[];
  datasetLevelSources: ColumnSource[];
  facets: Record<string, unknown>;
  facetVersion: string | null;
  inputFacets: Record<string, unknown>;
  outputFacets: Record<string, unknown>;
  assertions: AssertionResult[];
  versions: DatasetVersionItem[];
  versionTotal: number;
  producers: Usage[];
  consumers: Usage[];
  series: Series[];
}

/** Content of the job page; runs are newest first. */
export interface JobView {
  job: EntityName;
  kind: string | null;
  integration: string | null;
  description: string | null;
  at: string | null;
  facets: Record<string, unknown>;
  inputs: Usage[];
  outputs: Usage[];
  runs: RunListItem[];
  runTotal: number;
}

/** Content of the run page. */
export interface RunView {
  run: RunListItem;
  error: string | null;
  parent: RunListItem | null;
  parentJob: EntityName | null;
  previous: RunListItem | null;
  nominalStart: string | null;
  nominalEnd: string | null;
  facets: Record<string, unknown>;
  jobFacets: Record<string, unknown>;
  inputs: RunIoView[];
  outputs: RunIoView[];
  assertions: AssertionResult[];
  children: RunListItem[];
  childTotal: number;
}

/** Differences between two runs, most important first. */
export interface RunChanges {
  before: string;
  beforeAt: string | null;
  after: string;
  afterAt: string | null;
  name: string;
  changes: RunChange[];
}

/** Response for a notebook run without an earlier run. */
export interface NoPreviousRun {
  before: null;
}

/** A lineage graph with its layout. */
export interface LineageGraphView {
  centre: string;
  nodes: LineageGraphNode[];
  links: PageLink[];
  edges: LineageGraphEdge[];
  groups: NamespaceGroup[];
  timeRange: TimeRange;
  isTruncated: boolean;
  card: CardMetrics;
}

/** Search results grouped by kind, best matches first; `totals` counts all results per kind. */
export interface SearchResults {
  items: SearchResult[];
  totals: Partial<Record<SearchResultKind, number>>;
  isComplete: boolean;
}

/** A page of events; pass `next_cursor` as `before` to get the next page. */
export interface EventList {
  stream: string;
  items: EventListItem[];
  total: number;
  nextCursor: number | null;
}

/** The text of an event, possibly truncated, and its full size in characters. */
export interface EventText {
  text: string;
  size: number;
}

/** Versions of a facet, newest first; `next` is the cursor of the next page. */
export interface FacetHistory {
  id: string;
  name: string;
  versions: FacetVersion[];
  next: string | null;
}

/** Status of log, lake, index and lock of a data directory. */
export interface PipelineStatus {
  home: string;
  locked_by: LockHolder | null;
  log: Lag;
  unread_stream_bytes: number;
  index: IndexStatus | null;
  batches: CommittedBatch[];
  rejected: RejectionSummary;
  tables: TableSize[];
  pending_backfill_events: number;
  supervisor: SupervisorState | null;
  spark: SparkApplication | null;
  topic: TopicStatus | null;
}

/** Summary of the run. */
export interface PageHeader {
  sessionId: string;
  notebook: string;
  state: RunState;
  startedAt: string | null;
  durationMs: number | null;
  cellCount: number;
  failedCount: number;
  peakMemoryMb: number | null;
  losses: LostLineage[];
}

/** Three lanes: inputs, cells in run order, outputs. */
export interface LanesView {
  reads: Lane;
  cells: Lane;
  writes: Lane;
  links: PageLink[];
  boxes: Record<string, Box>;
  width: number;
  height: number;
  card: CardMetrics;
  cell: CellMetrics;
}

/** Total counts. */
export interface Counts {
  datasets: number;
  jobs: number;
  runs: number;
  sessions: number;
}

/** Namespace and name of a dataset or job. */
export interface EntityName {
  namespace: string;
  name: string;
}

/** A run in a list. */
export interface RunListItem {
  runUuid: string;
  job: EntityName | null;
  state: RunState;
  startedAt: string | null;
  endedAt: string | null;
  sessionId: string | null;
  isChild: boolean;
  error: string | null;
  tests: QualityCounts | null;
}

/** Times of the first and last event of any run. */
export interface TimeRange {
  first: string | null;
  last: string | null;
}

/** Heights of the parts of a dataset card; the web UI uses the same values. */
export interface CardMetrics {
  head: number;
  row: number;
  maxRows: number;
}

/** Distance of a position from the end of the log; `events` is an estimate for a large lag. */
export interface Lag {
  position: number;
  end: number;
  bytes: number;
  events: number;
  is_estimate: boolean;
}

/** Number of rejected events, of those not ingested since, of damaged records of the log, and the newest ones. */
export interface RejectionSummary {
  count: number;
  unresolved: number | null;
  last: Rejection[];
  corrupt_records: number;
}

/** A column of a state; None means the whole dataset. */
export interface Port {
  state: number;
  column: string | null;
}

/** Explanation of a column: a sentence and the upstream tree. */
export interface ColumnExplanation {
  port: Port;
  sentence: SentencePart[];
  tree: ExplanationStep;
}

/** A dataset between two operations; `producer` is the operation that wrote it, None if it existed before. */
export interface PageState {
  namespace: string;
  name: string;
  label: string;
  kind: "file" | "frame";
  version: string | null;
  rowCount: number | null;
  columns: Field[];
  producer: number | null;
}

/** One operation: its cell, line and code, and its input and output states. */
export interface PageOperation {
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

/** One execution of a cell; `offset` and `share` are fractions of the total cell time. */
export interface PageCell {
  executionId: string;
  cellId: string;
  number: number;
  title: string;
  isMarkdown: boolean;
  state: CellState;
  source: string;
  shownLines: number[];
  error: PageError | null;
  startedAt: string | null;
  durationMs: number | null;
  offset: number;
  share: number;
  startMemoryMb: number | null;
  endMemoryMb: number | null;
  frames: number[];
}

/** A column lineage edge between two states. */
export interface PageEdge {
  source: Port;
  target: Port;
  type: EdgeType;
  subtype: string | null;
  flag: EdgeFlag | null;
  operation: number | null;
}

/** Positions of the visible items of a lane, and the total number. */
export interface Lane {
  items: number[];
  total: number;
}

/** Heights of the parts of a cell card. */
export interface CellMetrics {
  head: number;
  line: number;
  ports: number;
}

/** Graph of datasets and cells, complete or around the state `centre`; `total` counts the nodes of the session. */
export interface PageGraphView {
  scope: "hop" | "session";
  centre: number | null;
  nodes: PageGraphNode[];
  links: PageLink[];
  total: number;
  card: CardMetrics;
}

/** A notebook session in a list. */
export interface SessionSummary {
  sessionId: string;
  notebook: string;
  state: RunState;
  startedAt: string | null;
  endedAt: string | null;
  cellCount: number;
  failedCellCount: number;
}

/** A dataset in a list. */
export interface DatasetListItem {
  dataset: EntityName;
  at: string | null;
  isDeleted: boolean;
  producers: EntityName[];
}

/** A job in a list, with its latest runs, newest first. */
export interface JobListItem {
  job: EntityName;
  kind: string | null;
  at: string | null;
  state: RunState | null;
  runs: RunListItem[];
  runTotal: number;
}

/** A column with its sources. */
export interface DatasetColumn {
  name: string;
  type: string | null;
  description: string | null;
  sources: ColumnSource[];
}

/** A direct or indirect source of a column. */
export interface ColumnSource {
  dataset: EntityName;
  column: string | null;
  type: EdgeType;
  subtype: string | null;
  isInferred: boolean;
}

/** Result of a data quality test of a dataset; `success` is None if it is unknown. `params` is JSON. */
export interface AssertionResult {
  dataset: DatasetName;
  assertion: string;
  column: string | null;
  name: string | null;
  success: boolean | null;
  severity: string | null;
  description: string | null;
  expected: string | null;
  actual: string | null;
  content: string | null;
  contentType: string | null;
  params: string | null;
  runUuid: string | null;
  at: string | null;
}

/** A completed write, or a declaration by a DatasetEvent. */
export interface DatasetVersionItem {
  version: string | null;
  at: string | null;
  runUuid: string | null;
  job: EntityName | null;
  rowCount: number | null;
  lifecycle: string | null;
  hasNewSchema: boolean;
}

/** A job that uses a dataset, or a dataset used by a job, with the latest run. */
export interface Usage {
  node: EntityName;
  at: string | null;
  runUuid: string | null;
  state: RunState | null;
  isImplied: boolean;
}

/** A metric over time, oldest first. */
export interface Series {
  name: string;
  points: SeriesPoint[];
}

/** An input or output of a run. */
export interface RunIoView {
  dataset: EntityName;
  version: string | null;
  rowCount: number | null;
  isImplied: boolean;
  facets: Record<string, unknown>;
}

/** One difference, with the values before and after. */
export interface RunChange {
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

/** A node with its position and at most `MAX_COLUMNS` columns. */
export interface LineageGraphNode {
  id: string;
  kind: NodeKind;
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

/** A link between two boxes (`cell:<i>` or `state:<i>`); `states` are the datasets passed along it. */
export interface PageLink {
  source: string;
  target: string;
  states: number[];
}

/** A column edge; ports and job refer to nodes by list position. */
export interface LineageGraphEdge {
  source: Port;
  target: Port;
  type: string;
  subtype: string | null;
  flag: string | null;
  job: number | null;
  code: string[];
}

/** Bounding box of the nodes of a namespace. */
export interface NamespaceGroup {
  name: string;
  box: Box;
}

/** A search result with what its link needs. */
export interface SearchResult {
  kind: SearchResultKind;
  name: EntityName;
  column: string | null;
  runUuid: string | null;
  sessionId: string | null;
  text: string | null;
  matchedKind: "dataset" | "job" | "run" | null;
}

/** An event in a list; `detail` is the producer or, for a rejected event, the error. */
export interface EventListItem {
  seq: number;
  eventId: string;
  receivedAt: string | null;
  type: string | null;
  job: string | null;
  run: string | null;
  detail: string | null;
}

/** Value of a facet over a period; null while deleted. */
export interface FacetVersion {
  facet: unknown;
  firstAt: string;
  lastAt: string;
  firstRunId: string | null;
  lastRunId: string | null;
  events: number;
}

/** The process that holds the lock, and its host if it may be another; None if unknown. */
export interface LockHolder {
  pid: number | null;
  since: string | null;
  host: string | null;
}

/** Time and id of the last batch in the index, and the position of its last event. */
export interface IndexStatus {
  at: string | null;
  batch: string | null;
  seq: number | null;
}

/** A batch, when its last table was committed, and the rows that it added to each table. */
export interface CommittedBatch {
  app_id: string;
  number: number;
  committed_at_ms: number;
  rows: Record<string, number>;
  seconds: number | null;
  events_per_second: number | null;
}

/** Rows, files and bytes of the newest version of a table. */
export interface TableSize {
  name: string;
  rows: number;
  files: number;
  bytes: number;
}

/** State of a supervised pipeline process. */
export interface SupervisorState {
  supervisor_pid: number;
  is_running: boolean;
  restarts: number;
  last_exit: string | null;
  last_exit_at: string | null;
  restart_at: string | null;
}

/** Master, id and executors (`host:port`) of a Spark application, and the process of its driver. */
export interface SparkApplication {
  master: string;
  application_id: string;
  executors: string[];
  driver_pid: number;
  driver_host: string;
}

/** Committed and last offsets of a topic by partition, when the last were read, and the error of the brokers. */
export interface TopicStatus {
  name: string;
  brokers: string | null;
  offsets: Record<string, number>;
  latest: Record<string, number>;
  read_at: string | null;
  error: string | null;
}

/** Something that capture could not follow: where and why, and the code or the query. */
export interface LostLineage {
  message: string;
  code: string;
}

/** A column of the upstream tree, with its transformation and line of code. */
export interface ExplanationStep {
  label: string;
  version: string | null;
  column: string | null;
  type?: EdgeType;
  subtype?: string;
  flag?: EdgeFlag;
  cell?: number;
  line?: number;
  code?: string;
  upstream?: ExplanationStep[];
  isRepeated?: boolean;
}

/** A rectangle in CSS pixels; the origin is the top left corner. */
export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A dataset by its OpenLineage identity. */
export interface DatasetName {
  namespace: string;
  name: string;
}

/** Number of data quality tests, and of those that failed and passed. */
export interface QualityCounts {
  failed: number;
  passed: number;
  total: number;
}

/** Source and reason of a rejected event. */
export interface Rejection {
  source: string | null;
  reason: string | null;
  detail: string | null;
}

/** A part of the explanation; `cell` and `line` refer to its code. */
export interface SentencePart {
  kind: "code" | "indirect" | "source" | "summary" | "target";
  text: string;
  cell?: number;
  line?: number;
}

/** A column of the latest schema facet. */
export interface Field {
  name: string;
  type: string | null;
}

/** The exception of a cell, and the failing line if the traceback contains it. */
export interface PageError {
  type: string;
  message: string;
  traceback: string;
  line: number | null;
}

/** A box of the graph; the hidden counts are neighbours that this view omits. */
export interface PageGraphNode {
  id: string;
  box: Box;
  hiddenUpstream: number;
  hiddenDownstream: number;
}

/** The value of a metric at a time. */
export interface SeriesPoint {
  at: string;
  value: number;
  runUuid: string | null;
}
