import { type Node, type NodeProps, useStore, ViewportPortal } from "@xyflow/react";
import { type CSSProperties, type KeyboardEvent, memo, useMemo } from "react";
import type { LineageGraph, LineageNode } from "../documents";
import { nearest, portKey, samePort, strengthOf } from "../lineage";
import type { Port } from "../page";
import { Canvas } from "../parts/Canvas";
import { change, datasetHref, jobHref } from "../router";
import type { BoxThread } from "../weave";
import { ago, RUN_WORDS } from "../words";
import { useLineageFollowed } from "./lineageFollow";
import { lineageThreads } from "./lineageThreads";

type BoxNode = Node<{ node: LineageNode; place: number; openings: readonly string[] }>;
type GroupNode = Node<{ name: string }>;

// One hop with all that is drawn at first must show its columns on a small screen, too.
const FAR = 0.42;

const NODE_TYPES = { dataset: DatasetNode, job: JobNode, group: GroupFrame };

export function LineageCanvas({ graph, openings }: { graph: LineageGraph; openings: readonly string[] }) {
  const { path, columnsOf } = useLineageFollowed();
  const nodes = useMemo(
    () => [...graph.groups.map(groupNode), ...graph.nodes.map((node, i) => boxNode(node, i, openings))],
    [graph, openings],
  );
  const threads = useMemo(() => lineageThreads(graph, path, columnsOf), [graph, path, columnsOf]);
  return (
    <Canvas<BoxNode | GroupNode>
      nodes={nodes}
      nodeTypes={NODE_TYPES}
      fitViewOptions={{ padding: 0.08, maxZoom: 1, minZoom: 0.2 }}
      far={FAR}
    >
      <Threads threads={threads} />
    </Canvas>
  );
}

function boxNode(node: LineageNode, place: number, openings: readonly string[]): BoxNode {
  const { x, y, width, height } = node.box;
  return { id: node.id, type: node.kind, position: { x, y }, width, height, data: { node, place, openings } };
}

function groupNode({ name, box: { x, y, width, height } }: LineageGraph["groups"][number]): GroupNode {
  return { id: `group ${name}`, type: "group", position: { x, y }, width, height, zIndex: -1, data: { name } };
}

/** All lines in one drawing below the nodes, those at rest as a single path: a thousand cost as much as one. */
const Threads = memo(function Threads({ threads }: { threads: readonly BoxThread[] }) {
  const lit = threads.filter((thread) => thread.strength !== null);
  const ordered = lit.toSorted((a, b) => Number(a.strength === "direct") - Number(b.strength === "direct"));
  const resting = threads.filter((thread) => thread.strength === null).map((thread) => thread.d);
  return (
    <ViewportPortal>
      <svg className="lineage-threads" aria-hidden="true">
        <path className="resting" d={resting.join("")} />
        {ordered.map((thread) => (
          <g key={thread.key} className={thread.strength ?? ""} data-guessed={thread.isGuessed || undefined}>
            <path d={thread.d} />
          </g>
        ))}
      </svg>
    </ViewportPortal>
  );
});

function GroupFrame({ data, height }: NodeProps<GroupNode>) {
  return (
    <div className="group-frame" style={{ height }}>
      <bdi>{data.name}</bdi>
    </div>
  );
}

function DatasetNode({ data: { node, place, openings } }: NodeProps<BoxNode>) {
  const { graph, path, columnsOf } = useLineageFollowed();
  const isFar = useStore((flow) => flow.transform[2] < FAR);
  // From afar columns cannot be read, and a thousand nodes would have ten thousand of them.
  const columns = isFar ? [] : columnsOf(place);
  const { card } = graph;
  const sizes = { "--card-head": `${card.head}px`, "--row": `${card.row}px`, height: node.box.height } as CSSProperties;
  return (
    <article
      className="card node"
      data-centre={node.id === graph.centre || undefined}
      data-lit={path?.states.has(place) || undefined}
      style={sizes}
    >
      <NodeHead node={node} words={node.namespace} />
      {columns.map((column) => (
        <ColumnPort key={column} port={{ state: place, column }} label={node.label} />
      ))}
      {!isFar && node.columnTotal > columns.length && (
        <a className="more" href={datasetHref(node)}>
          {columns.length} of {node.columnTotal} columns
        </a>
      )}
      <Hidden node={node} openings={openings} />
    </article>
  );
}

function JobNode({ data: { node, openings } }: NodeProps<BoxNode>) {
  const { graph, path } = useLineageFollowed();
  const isLit = [...(path?.edges.keys() ?? [])].some((i) => graph.nodes[graph.edges[i]?.job ?? -1]?.id === node.id);
  const words = [node.state && RUN_WORDS[node.state], node.at && ago(node.at)].filter(Boolean).join(" · ");
  return (
    <article
      className="card node job"
      data-centre={node.id === graph.centre || undefined}
      data-lit={isLit || undefined}
      data-state={node.state === "FAILED" ? "failed" : undefined}
      style={{ height: node.box.height }}
    >
      <NodeHead node={node} words={words || node.namespace} />
      <Hidden node={node} openings={openings} />
    </article>
  );
}

function NodeHead({ node, words }: { node: LineageNode; words: string }) {
  const { graph } = useLineageFollowed();
  const walk = (event: KeyboardEvent<HTMLElement>) => {
    const next = nextNode(graph, node, event.key);
    if (event.key === "e") openSides(node);
    if (!next) return;
    event.preventDefault();
    headOf(next)?.focus();
  };
  return (
    <a
      className="head"
      href={node.kind === "job" ? jobHref(node) : datasetHref(node)}
      data-head={node.id}
      title={`${node.namespace} ${node.name}`}
      onKeyDown={walk}
    >
      <b>
        <bdi>{node.label}</bdi>
      </b>
      <small>
        <bdi>{words}</bdi>
      </small>
    </a>
  );
}

function headOf(id: string): HTMLElement | null {
  return document.querySelector(`[data-head="${CSS.escape(id)}"]`);
}

/** Left and right follow an edge, up and down go to the neighbour in the same column of the picture. */
function nextNode(graph: LineageGraph, node: LineageNode, key: string): string | null {
  if (key === "ArrowLeft") return graph.links.find((link) => link.target === node.id)?.source ?? null;
  if (key === "ArrowRight") return graph.links.find((link) => link.source === node.id)?.target ?? null;
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const column = graph.nodes
    .filter((one) => Math.abs(one.box.x - node.box.x) < 1)
    .toSorted((a, b) => a.box.y - b.box.y);
  const place = column.findIndex((one) => one.id === node.id);
  return column[place + (key === "ArrowDown" ? 1 : -1)]?.id ?? null;
}

function openSides(node: LineageNode): void {
  const known = new URLSearchParams(location.hash.split("?", 2)[1]).getAll("open");
  const sides = [node.hiddenUpstream > 0 && `up:${node.id}`, node.hiddenDownstream > 0 && `down:${node.id}`];
  change({ open: [...known, ...sides.filter((side) => side !== false)] });
}

function ColumnPort({ port, label }: { port: Port; label: string }) {
  const { lineage, path, pinned, active, point, pin } = useLineageFollowed();
  const column = port.column ?? "";
  const walk = (event: KeyboardEvent<HTMLButtonElement>) => {
    const target = walkTarget(event);
    if (!target) return;
    event.preventDefault();
    target.focus();
  };
  const walkTarget = (event: KeyboardEvent<HTMLButtonElement>): HTMLElement | null => {
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const all = [...document.querySelectorAll<HTMLElement>("[data-port]")];
      return all[all.indexOf(event.currentTarget) + (event.key === "ArrowDown" ? 1 : -1)] ?? null;
    }
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return null;
    const found = nearest(lineage, port, event.key === "ArrowLeft" ? "up" : "down", (one) => portOf(one) !== null);
    return found && portOf(found);
  };
  return (
    <button
      type="button"
      className="col"
      data-port={portKey(port)}
      data-lit={strengthOf(path, port.state, column)}
      data-active={samePort(active, port) || undefined}
      aria-pressed={samePort(pinned, port)}
      aria-label={`${column}, column of ${label}`}
      title={column}
      onPointerEnter={() => point(port)}
      onPointerLeave={() => point(null)}
      onFocus={(event) => event.currentTarget.matches(":focus-visible") && point(port)}
      onBlur={() => point(null)}
      onClick={() => pin(samePort(pinned, port) ? null : port)}
      onKeyDown={walk}
    >
      <bdi>{column}</bdi>
    </button>
  );
}

function portOf(port: Port): HTMLElement | null {
  return document.querySelector(`[data-port="${CSS.escape(portKey(port))}"]`);
}

function Hidden({ node, openings }: { node: LineageNode; openings: readonly string[] }) {
  const sides = [
    ["up", node.hiddenUpstream, "upstream"],
    ["down", node.hiddenDownstream, "downstream"],
  ] as const;
  return sides.map(([side, hidden, words]) =>
    hidden > 0 ? (
      <button
        key={side}
        type="button"
        className={`plus ${side}`}
        aria-label={`+ ${hidden} ${words} of ${node.label}`}
        onClick={() => change({ open: [...openings, `${side}:${node.id}`] })}
      >
        + {hidden} {words}
      </button>
    ) : null,
  );
}
