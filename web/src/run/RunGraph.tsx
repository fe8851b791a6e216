import { BaseEdge, type Edge, type EdgeProps, Handle, type Node, type NodeProps, Position } from "@xyflow/react";
import { useMemo } from "react";
import { itemAt } from "../api/client";
import type { CardMetrics, PageGraphNode, PageGraphView } from "../api/types";
import controls from "../components/controls.module.css";
import layout from "../components/layout.module.css";
import { countLabel, formatDuration, formatShape } from "../format";
import { Canvas } from "../graph/Canvas";
import canvas from "../graph/Canvas.module.css";
import card from "../graph/Card.module.css";
import { DatasetNode } from "../graph/DatasetNode";
import { ExpandButtons } from "../graph/ExpandButtons";
import { drawOrder, type EdgePath, runGraphEdges } from "../graph/edgePaths";
import edgeStyles from "../graph/edges.module.css";
import { JobNode } from "../graph/JobNode";
import { SidePanel } from "../graph/SidePanel";
import { updateQuery } from "../router";
import { explanationFor } from "../selection/explanation";
import styles from "./RunGraph.module.css";
import { useRun } from "./runContext";
import { HopChain } from "./TextView";

// Up to this many nodes, the whole run is shown by default.
const MAX_DEFAULT_NODES = 60;

const NAMES_ONLY_ZOOM = 0.6;

/** The datasets and cells of a run as a graph: the whole run, or one hop around the selected dataset. */
export function RunGraph({ scope }: { scope: string | null }) {
  const { page, selected } = useRun();
  const whole = page.graphs.find((graph) => graph.scope === "session");
  const hop = page.graphs.find((graph) => graph.centre !== null && graph.centre === selected?.state);
  const isWholeDefault = whole !== undefined && whole.nodes.length <= MAX_DEFAULT_NODES;
  const isHop = scope === "hop" || (scope !== "session" && !isWholeDefault);
  const view = isHop ? (hop ?? whole) : whole;
  if (!view || view.nodes.length === 0) return <p className={styles.empty}>No datasets in this run.</p>;
  const scopes: [PageGraphView["scope"], string][] = [
    ["hop", hop ? `One hop of ${page.states[hop.centre ?? 0]?.label}` : "One hop"],
    ["session", "Whole run"],
  ];
  return (
    <div>
      <div className={styles.toolbar}>
        <fieldset className={controls.segments}>
          <legend className="visually-hidden">Scope</legend>
          {scopes.map(([name, label]) => (
            <button
              key={name}
              type="button"
              disabled={name === "hop" && !hop}
              aria-pressed={view.scope === name}
              onClick={() => updateQuery({ scope: name })}
            >
              {label}
            </button>
          ))}
        </fieldset>
        <span className={layout.facts}>{countLabel(view.nodes.length, view.total) || `all ${view.total}`} nodes</span>
      </div>
      <div className={canvas.stage}>
        <Graph key={`${view.centre}`} view={view} />
        <Upstream />
      </div>
    </div>
  );
}

type BoxNode = Node<{ node: PageGraphNode; card: CardMetrics }>;
type ColumnEdge = Edge<{ edge: EdgePath }>;

const NODE_TYPES = { dataset: RunDatasetNode, cell: CellNode };
const EDGE_TYPES = { column: ColumnEdgeLine };

function Graph({ view }: { view: PageGraphView }) {
  const { page, path, columnsOf } = useRun();
  const nodes = useMemo(() => view.nodes.map((node) => boxNode(node, view.card)), [view]);
  const edges = useMemo(() => {
    const visible = (state: number) => columnsOf(state, view.card.maxRows);
    return runGraphEdges(page, view, path, visible).map(columnEdge);
  }, [page, view, path, columnsOf]);
  return (
    <Canvas
      nodes={nodes}
      edges={edges}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      fitViewOptions={{ padding: 0.06, maxZoom: 1 }}
      namesOnlyZoom={NAMES_ONLY_ZOOM}
    />
  );
}

function boxNode(node: PageGraphNode, metrics: CardMetrics): BoxNode {
  const { x, y, width, height } = node.box;
  const type = node.id.startsWith("cell:") ? "cell" : "dataset";
  return { id: node.id, type, position: { x, y }, width, height, data: { node, card: metrics } };
}

function columnEdge(edge: EdgePath): ColumnEdge {
  const { key: id, source, target } = edge;
  return { id, source, target, type: "column", data: { edge }, zIndex: drawOrder(edge) };
}

function ColumnEdgeLine({ id, data }: EdgeProps<ColumnEdge>) {
  if (!data) return null;
  const { d, kind, isInferred } = data.edge;
  return (
    <g className={edgeStyles[kind ?? "idle"]} data-kind={kind ?? undefined} data-inferred={isInferred || undefined}>
      <BaseEdge id={id} path={d} interactionWidth={0} />
    </g>
  );
}

function RunDatasetNode({ data: { node, card: metrics } }: NodeProps<BoxNode>) {
  const { page, path, columnsOf } = useRun();
  const index = indexOf(node);
  const state = itemAt(page.states, index);
  const columns = columnsOf(index, metrics.maxRows);
  const types = new Map(state.columns.map((field) => [field.name, field.type]));
  const version = state.kind === "frame" ? `frame${state.version ? ` v${state.version}` : ""}` : "file";
  const open = () => updateQuery({ open: node.id });
  const head = (
    <button type="button" className={card.head} onClick={open} title={state.name}>
      <b>
        <bdi>{state.label}</bdi>
      </b>
      <small>{[version, formatShape(state)].filter(Boolean).join(" · ")}</small>
    </button>
  );
  return (
    <DatasetNode
      state={index}
      head={head}
      columns={columns.map((name) => ({ name, type: types.get(name) ?? null }))}
      card={metrics}
      height={node.box.height}
      isHighlighted={path?.states.has(index) ?? false}
    >
      {state.columns.length > columns.length && (
        <button type="button" className={card.more} onClick={open}>
          {columns.length} of {state.columns.length} columns
        </button>
      )}
      <Handles />
      <ExpandButtons node={node} label={state.label} onExpand={showWholeRun} />
    </DatasetNode>
  );
}

function CellNode({ data: { node } }: NodeProps<BoxNode>) {
  const { page, activeCells } = useRun();
  const index = indexOf(node);
  const cell = itemAt(page.cells, index);
  return (
    <JobNode height={node.box.height} isHighlighted={activeCells.has(index)} isFailed={cell.state === "failed"}>
      <button
        type="button"
        className={card.head}
        onClick={() => updateQuery({ open: `cell:${cell.executionId}` })}
        title={cell.source}
      >
        <b>
          <bdi>{cell.title}</bdi>
        </b>
        <small>{[`cell ${cell.number}`, formatDuration(cell.durationMs)].filter(Boolean).join(" · ")}</small>
      </button>
      <Handles />
      <ExpandButtons node={node} label={cell.title} onExpand={showWholeRun} />
    </JobNode>
  );
}

function indexOf(node: PageGraphNode): number {
  return Number(node.id.split(":")[1]);
}

function showWholeRun(): void {
  updateQuery({ scope: "session" });
}

/** React Flow draws edges only between handles. Edge paths have their own ends, so the handles are invisible. */
function Handles() {
  return (
    <>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </>
  );
}

function Upstream() {
  const { page, index, active } = useRun();
  const explanation = useMemo(() => active && explanationFor(page, index, active), [page, index, active]);
  if (!explanation) {
    return (
      <SidePanel>
        <p className={layout.empty}>No column lineage was recorded for this run.</p>
      </SidePanel>
    );
  }
  return (
    <SidePanel>
      <h2>Upstream</h2>
      <HopChain hop={explanation.tree} />
    </SidePanel>
  );
}
