import { BaseEdge, type Edge, type EdgeProps, Handle, type Node, type NodeProps, Position } from "@xyflow/react";
import { type CSSProperties, useMemo } from "react";
import { answerFor } from "./answer";
import { ColumnButton } from "./ColumnButton";
import { useFollowed } from "./follow";
import { graphThreads } from "./graph";
import { at, type CardMetrics, type GraphNode, type GraphView, type Scope } from "./page";
import { Canvas } from "./parts/Canvas";
import { go, type Route } from "./route";
import { HopChain } from "./TextTwin";
import { visibleColumns } from "./threads";
import type { BoxThread } from "./weave";
import { duration, shape, shownOf } from "./words";

// Up to this many nodes a person sees more in the whole than in a part of it.
const SMALL = 60;

const FAR = 0.6;

const SCOPES: readonly [Scope, string][] = [
  ["hop", "One hop"],
  ["session", "Whole run"],
];

export function GraphTab({ route }: { route: Route }) {
  const { page, pinned } = useFollowed();
  const session = page.graphs.find((graph) => graph.scope === "session");
  const hop = page.graphs.find((graph) => graph.centre !== null && graph.centre === pinned?.state);
  const wanted = route.scope ?? (session && session.nodes.length <= SMALL ? "session" : "hop");
  const view = wanted === "hop" ? (hop ?? session) : session;
  if (!view || view.nodes.length === 0)
    return <p className="nothing still">No dataset was read, made or written in this run.</p>;
  return (
    <div className="graph-tab">
      <div className="graph-bar">
        <fieldset className="segments">
          <legend className="unseen">How much to show</legend>
          {SCOPES.map(([scope, name]) => (
            <button
              key={scope}
              type="button"
              disabled={scope === "hop" && !hop}
              aria-pressed={view.scope === scope}
              onClick={() => go({ scope })}
            >
              {scope === "hop" && hop ? `One hop of ${page.states[hop.centre ?? 0]?.label}` : name}
            </button>
          ))}
        </fieldset>
        <span className="facts">{shownOf(view.nodes.length, view.total) || `all ${view.total}`} nodes</span>
      </div>
      <div className="graph-stage">
        <Graph key={`${view.centre}`} view={view} />
        <Origin />
      </div>
    </div>
  );
}

type BoxNode = Node<{ node: GraphNode; card: CardMetrics }>;
type ThreadEdge = Edge<{ thread: BoxThread }>;

const NODE_TYPES = { dataset: DatasetNode, cell: CellNode };
const EDGE_TYPES = { thread: ThreadLine };

function Graph({ view }: { view: GraphView }) {
  const { page, path, pinnedPath } = useFollowed();
  const nodes = useMemo(() => view.nodes.map((node) => boxNode(node, view.card)), [view]);
  const edges = useMemo(() => {
    const columnsOf = (state: number) => visibleColumns(at(page.states, state), state, pinnedPath, view.card.maxRows);
    return graphThreads(page, view, path, columnsOf).map(threadEdge);
  }, [page, view, path, pinnedPath]);
  return (
    <Canvas
      nodes={nodes}
      edges={edges}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      fitViewOptions={{ padding: 0.06, maxZoom: 1 }}
      far={FAR}
    />
  );
}

function boxNode(node: GraphNode, card: CardMetrics): BoxNode {
  const { x, y, width, height } = node.box;
  const type = node.id.startsWith("cell:") ? "cell" : "dataset";
  return { id: node.id, type, position: { x, y }, width, height, data: { node, card } };
}

function threadEdge(thread: BoxThread): ThreadEdge {
  const { key: id, source, target } = thread;
  return {
    id,
    source,
    target,
    type: "thread",
    data: { thread },
    zIndex: thread.strength === "direct" ? 2 : thread.strength ? 1 : 0,
  };
}

function ThreadLine({ id, data }: EdgeProps<ThreadEdge>) {
  if (!data) return null;
  const { d, strength, isGuessed } = data.thread;
  return (
    <g className={strength ?? "resting"} data-guessed={isGuessed || undefined}>
      <BaseEdge id={id} path={d} interactionWidth={0} />
    </g>
  );
}

function DatasetNode({ data: { node, card } }: NodeProps<BoxNode>) {
  const { page, path, pinnedPath } = useFollowed();
  const place = Number(node.id.slice("state:".length));
  const state = at(page.states, place);
  const columns = visibleColumns(state, place, pinnedPath, card.maxRows);
  const types = new Map(state.columns.map((field) => [field.name, field.type]));
  const sizes = { "--card-head": `${card.head}px`, "--row": `${card.row}px`, height: node.box.height } as CSSProperties;
  const version = state.kind === "frame" ? `frame${state.version ? ` v${state.version}` : ""}` : "file";
  return (
    <article className="card node" data-kind={state.kind} data-lit={path?.states.has(place) || undefined} style={sizes}>
      <button type="button" className="head" onClick={() => go({ open: node.id })} title={state.name}>
        <b>
          <bdi>{state.label}</bdi>
        </b>
        <small>{[version, shape(state)].filter(Boolean).join(" · ")}</small>
      </button>
      {columns.map((column) => (
        <ColumnButton key={column} className="col" port={{ state: place, column }} type={types.get(column) ?? null} />
      ))}
      {state.columns.length > columns.length && (
        <button type="button" className="more" onClick={() => go({ open: node.id })}>
          {columns.length} of {state.columns.length} columns
        </button>
      )}
      <Ends />
      <Hidden node={node} />
    </article>
  );
}

function CellNode({ data: { node } }: NodeProps<BoxNode>) {
  const { page, litCells } = useFollowed();
  const place = Number(node.id.slice("cell:".length));
  const cell = at(page.cells, place);
  return (
    <article
      className="card node job"
      data-state={cell.state}
      data-lit={litCells.has(place) || undefined}
      style={{ height: node.box.height }}
    >
      <button
        type="button"
        className="head"
        onClick={() => go({ open: `cell:${cell.executionId}` })}
        title={cell.source}
      >
        <b>
          <bdi>{cell.title}</bdi>
        </b>
        <i>{cell.number}</i>
        <small>{[`cell ${cell.number}`, duration(cell.durationMs)].filter(Boolean).join(" · ")}</small>
      </button>
      <Ends />
      <Hidden node={node} />
    </article>
  );
}

/** React Flow draws an edge only between handles. Threads know their own ends, so these are not seen. */
function Ends() {
  return (
    <>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </>
  );
}

function Hidden({ node }: { node: GraphNode }) {
  return (
    <>
      {node.hiddenUpstream > 0 && (
        <button type="button" className="plus up" onClick={() => go({ scope: "session" })}>
          + {node.hiddenUpstream} upstream
        </button>
      )}
      {node.hiddenDownstream > 0 && (
        <button type="button" className="plus down" onClick={() => go({ scope: "session" })}>
          + {node.hiddenDownstream} downstream
        </button>
      )}
    </>
  );
}

function Origin() {
  const { page, lineage, active } = useFollowed();
  const answer = useMemo(() => active && answerFor(page, lineage, active), [page, lineage, active]);
  if (!answer) return <aside className="origin">No column of this run was traced.</aside>;
  return (
    <aside className="origin" aria-label="Where the column comes from" tabIndex={0}>
      <h2>Where it comes from</h2>
      <HopChain hop={answer.tree} />
    </aside>
  );
}
