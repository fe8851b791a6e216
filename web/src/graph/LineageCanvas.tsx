import { type Node, type NodeProps, useStore, ViewportPortal } from "@xyflow/react";
import { type KeyboardEvent, memo, useMemo } from "react";
import type { LineageGraphNode, LineageGraphView } from "../api/types";
import { nodeLabel, RUN_STATE_LABELS, timeAgo } from "../format";
import { datasetUrl, jobUrl, parseRoute, updateQuery } from "../router";
import { Canvas } from "./Canvas";
import card from "./Card.module.css";
import { DatasetNode } from "./DatasetNode";
import { ExpandButtons } from "./ExpandButtons";
import { type EdgePath, lineageGraphEdges } from "./edgePaths";
import edgeStyles from "./edges.module.css";
import { JobNode } from "./JobNode";
import styles from "./LineageCanvas.module.css";
import { useLineage } from "./lineageContext";

type BoxNode = Node<{ node: LineageGraphNode; index: number }>;
type GroupNode = Node<{ name: string }>;

// The initial graph of one hop still shows its columns on a small screen.
const NAMES_ONLY_ZOOM = 0.42;

const NODE_TYPES = { dataset: LineageDatasetNode, job: LineageJobNode, group: GroupFrame };

export function LineageCanvas() {
  const { graph, path, columnsOf } = useLineage();
  const nodes = useMemo(() => [...graph.groups.map(groupNode), ...graph.nodes.map(boxNode)], [graph]);
  const edges = useMemo(() => lineageGraphEdges(graph, path, columnsOf), [graph, path, columnsOf]);
  return (
    <Canvas<BoxNode | GroupNode>
      nodes={nodes}
      nodeTypes={NODE_TYPES}
      fitViewOptions={{ padding: 0.08, maxZoom: 1, minZoom: 0.2 }}
      namesOnlyZoom={NAMES_ONLY_ZOOM}
    >
      <Edges edges={edges} />
    </Canvas>
  );
}

function boxNode(node: LineageGraphNode, index: number): BoxNode {
  const { x, y, width, height } = node.box;
  return { id: node.id, type: node.kind, position: { x, y }, width, height, data: { node, index } };
}

function groupNode({ name, box: { x, y, width, height } }: LineageGraphView["groups"][number]): GroupNode {
  return { id: `group ${name}`, type: "group", position: { x, y }, width, height, zIndex: -1, data: { name } };
}

/** All edges in one drawing below the nodes; the idle ones are a single path, so that their number hardly matters. */
const Edges = memo(function Edges({ edges }: { edges: readonly EdgePath[] }) {
  const idle = edges.filter((edge) => edge.kind === null).map((edge) => edge.d);
  const highlighted = edges.filter((edge) => edge.kind !== null);
  return (
    <ViewportPortal>
      <svg className={styles.edges} aria-hidden="true" data-testid="edges">
        <path className={edgeStyles.idle} d={idle.join("")} />
        {highlighted.map((edge) => (
          <g
            key={edge.key}
            className={edge.kind === "direct" ? edgeStyles.direct : edgeStyles.indirect}
            data-kind={edge.kind}
            data-inferred={edge.isInferred || undefined}
          >
            <path d={edge.d} />
          </g>
        ))}
      </svg>
    </ViewportPortal>
  );
});

function GroupFrame({ data, height }: NodeProps<GroupNode>) {
  return (
    <div className={styles.group} style={{ height }} data-testid="namespace-group">
      <bdi>{data.name}</bdi>
    </div>
  );
}

function LineageDatasetNode({ data: { node, index } }: NodeProps<BoxNode>) {
  const { graph, path, columnsOf } = useLineage();
  const isNamesOnly = useStore((flow) => flow.transform[2] < NAMES_ONLY_ZOOM);
  // Columns are not readable then, and a thousand nodes would have ten thousand of them.
  const columns = isNamesOnly ? [] : columnsOf(index);
  return (
    <DatasetNode
      state={index}
      head={<NodeHead node={node} detail={node.namespace} />}
      columns={columns.map((name) => ({ name }))}
      card={graph.card}
      height={node.box.height}
      isCentre={node.id === graph.centre}
      isHighlighted={path?.states.has(index) ?? false}
    >
      {!isNamesOnly && node.columnTotal > columns.length && (
        <a className={card.more} href={datasetUrl(node)}>
          {columns.length} of {node.columnTotal} columns
        </a>
      )}
      <ExpandButtons node={node} label={node.label} onExpand={(side) => expand([`${side}:${node.id}`])} />
    </DatasetNode>
  );
}

function LineageJobNode({ data: { node } }: NodeProps<BoxNode>) {
  const { graph, path } = useLineage();
  const jobs = [...(path?.edges.keys() ?? [])].map((i) => graph.nodes[graph.edges[i]?.job ?? -1]?.id);
  const detail = [node.state && RUN_STATE_LABELS[node.state], node.at && timeAgo(node.at)].filter(Boolean).join(" · ");
  return (
    <JobNode
      height={node.box.height}
      isCentre={node.id === graph.centre}
      isHighlighted={jobs.includes(node.id)}
      isFailed={node.state === "FAILED"}
    >
      <NodeHead node={node} detail={detail || node.namespace} />
      <ExpandButtons node={node} label={node.label} onExpand={(side) => expand([`${side}:${node.id}`])} />
    </JobNode>
  );
}

function NodeHead({ node, detail }: { node: LineageGraphNode; detail: string }) {
  const { graph } = useLineage();
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    if (event.key === "e") expand(hiddenSides(node));
    const next = nextNode(graph, node, event.key);
    if (!next) return;
    event.preventDefault();
    headOf(next)?.focus();
  };
  return (
    <a
      className={card.head}
      href={node.kind === "job" ? jobUrl(node) : datasetUrl(node)}
      data-head={node.id}
      title={nodeLabel(node)}
      onKeyDown={onKeyDown}
    >
      <b>
        <bdi>{node.label}</bdi>
      </b>
      <small>
        <bdi>{detail}</bdi>
      </small>
    </a>
  );
}

function headOf(id: string): HTMLElement | null {
  return document.querySelector(`[data-head="${CSS.escape(id)}"]`);
}

/** Left and right follow an edge; up and down go to the neighbour at the same x. */
function nextNode(graph: LineageGraphView, node: LineageGraphNode, key: string): string | null {
  if (key === "ArrowLeft") return graph.links.find((link) => link.target === node.id)?.source ?? null;
  if (key === "ArrowRight") return graph.links.find((link) => link.source === node.id)?.target ?? null;
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const column = graph.nodes
    .filter((other) => Math.abs(other.box.x - node.box.x) < 1)
    .toSorted((a, b) => a.box.y - b.box.y);
  const index = column.findIndex((other) => other.id === node.id);
  return column[index + (key === "ArrowDown" ? 1 : -1)]?.id ?? null;
}

function hiddenSides(node: LineageGraphNode): string[] {
  const sides = [node.hiddenUpstream > 0 && `up:${node.id}`, node.hiddenDownstream > 0 && `down:${node.id}`];
  return sides.filter((side) => side !== false);
}

function expand(sides: readonly string[]): void {
  const open = parseRoute(location.hash).params.getAll("open");
  updateQuery({ open: [...open, ...sides] });
}
