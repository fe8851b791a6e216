import { useMemo } from "react";
import { itemAt } from "../api/client";
import type { LineageGraphEdge, LineageGraphView, Port } from "../api/types";
import { CopyButton } from "../components/CopyButton";
import { EmptyState } from "../components/Panel";
import text from "../components/TextBlock.module.css";
import { pluralize } from "../format";
import hopList from "../graph/HopList.module.css";
import { useLineage } from "../graph/lineageContext";
import { SidePanel } from "../graph/SidePanel";
import { transformationLabel } from "../selection/explanation";
import { columnKey, directFirst, downstreamPath, edgesAt, type LineageIndex } from "../selection/lineageIndex";
import styles from "./LineagePanel.module.css";

const MAX_HOPS = 500;

/** Upstream hops of the active column, and its impact downstream. */
export function LineagePanel() {
  const { graph, index, active } = useLineage();
  const hops = useMemo(() => (active ? upstreamHops(graph, index, active) : []), [graph, index, active]);
  const impact = useMemo(() => (active ? describeImpact(graph, index, active) : ""), [graph, index, active]);
  if (!active) {
    return (
      <SidePanel>
        <h2>Columns</h2>
        <EmptyState>
          {graph.edges.length > 0
            ? "Hover over a column to highlight its path; click to select it."
            : "No column lineage was recorded for these datasets."}
        </EmptyState>
      </SidePanel>
    );
  }
  return (
    <SidePanel>
      <h3 className={styles.column}>
        <bdi>{columnLabel(graph, active)}</bdi>
      </h3>
      <h2>Upstream</h2>
      {hops.length === 0 ? (
        <EmptyState>No upstream columns in this graph</EmptyState>
      ) : (
        <Hops hops={hops} graph={graph} />
      )}
      <h2>Impact</h2>
      <p>{impact}</p>
    </SidePanel>
  );
}

interface UpstreamHop {
  depth: number;
  edge: LineageGraphEdge;
  isRepeated: boolean;
}

/** The edges upstream of a column, depth first. The sources of INDIRECT edges are listed, but not followed. */
export function upstreamHops(
  graph: LineageGraphView,
  index: LineageIndex<LineageGraphEdge>,
  root: Port,
): UpstreamHop[] {
  const hops: UpstreamHop[] = [];
  const seen = new Set<string>();
  const visit = (column: Port, depth: number) => {
    const isRepeated = seen.has(columnKey(column));
    seen.add(columnKey(column));
    if (isRepeated || hops.length > MAX_HOPS) return;
    const edges = edgesAt(index.incoming, column).map((i) => itemAt(graph.edges, i));
    for (const edge of edges.toSorted(directFirst)) {
      hops.push({ depth, edge, isRepeated: seen.has(columnKey(edge.source)) });
      if (edge.type === "DIRECT" && edge.source.column !== null) visit(edge.source, depth + 1);
    }
  };
  visit(root, 0);
  return hops;
}

function Hops({ hops, graph }: { hops: readonly UpstreamHop[]; graph: LineageGraphView }) {
  return (
    <ul className={`${hopList.list} ${styles.hops}`}>
      {hops.map(({ depth, edge, isRepeated }, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the order of hops is fixed
        <li key={i} style={{ marginInlineStart: depth * 14 }} data-indirect={edge.type === "INDIRECT" || undefined}>
          <b>
            <bdi>{columnLabel(graph, edge.source)}</bdi>
          </b>{" "}
          <span>{transformationLabel(edge)}</span>{" "}
          {edge.job !== null && (
            <span>
              by <bdi>{itemAt(graph.nodes, edge.job).label}</bdi>
            </span>
          )}
          {isRepeated && <span>see above</span>}
          {edge.code.map((code) => (
            <code key={code} title={code}>
              {code}
            </code>
          ))}
        </li>
      ))}
    </ul>
  );
}

function columnLabel(graph: LineageGraphView, column: Port): string {
  return `${itemAt(graph.nodes, column.state).label} · ${column.column ?? "all columns"}`;
}

function describeImpact(graph: LineageGraphView, index: LineageIndex<LineageGraphEdge>, column: Port): string {
  const path = downstreamPath(index, column);
  const affected = [...path.columns].filter(([key]) => key !== columnKey(column));
  const direct = affected.filter(([, kind]) => kind === "direct").length;
  const indirect = affected.length - direct;
  const jobs = new Set([...path.edges.keys()].map((i) => itemAt(graph.edges, i).job)).size;
  const hasHidden = graph.nodes.some((node) => node.hiddenDownstream > 0);
  if (affected.length === 0) {
    return hasHidden ? "None in this graph; more datasets are hidden downstream." : "No known downstream columns.";
  }
  const parts = [`${pluralize(direct, "column")} ${direct === 1 ? "depends" : "depend"} on it directly`];
  if (indirect > 0) {
    parts.push(`${pluralize(indirect, "more column")} ${indirect === 1 ? "depends" : "depend"} on it indirectly`);
  }
  const hidden = hasHidden ? " More datasets are hidden downstream." : "";
  return `${parts.join("; ")}, through ${pluralize(jobs, "job")}.${hidden}`;
}

/** The graph as text: the hops of the active column, then every node with its neighbours. */
export function LineageText() {
  const { graph, index, active } = useLineage();
  const content = graphText(graph, index, active);
  return (
    <section className={text.block} aria-label="Graph as text">
      <CopyButton text={content} />
      <pre tabIndex={0}>{content}</pre>
    </section>
  );
}

export function graphText(graph: LineageGraphView, index: LineageIndex<LineageGraphEdge>, active: Port | null): string {
  const labels = new Map(graph.nodes.map((node) => [node.id, node.label]));
  const nodes = graph.nodes.map((node) => {
    const from = graph.links.filter((link) => link.target === node.id).map((link) => labels.get(link.source));
    const to = graph.links.filter((link) => link.source === node.id).map((link) => labels.get(link.target));
    const hidden = [
      node.hiddenUpstream && `${node.hiddenUpstream} more upstream`,
      node.hiddenDownstream && `${node.hiddenDownstream} more downstream`,
    ].filter(Boolean);
    const lines = [
      `${node.kind} ${node.namespace} · ${node.name}${node.id === graph.centre ? " (centre)" : ""}`,
      from.length ? `  ← ${from.join(", ")}` : "",
      to.length ? `  → ${to.join(", ")}` : "",
      hidden.length ? `  … ${hidden.join(", ")}` : "",
    ];
    return lines.filter(Boolean).join("\n");
  });
  if (!active) return nodes.join("\n");
  const hops = upstreamHops(graph, index, active).map(({ depth, edge }) => {
    const job = edge.job === null ? "" : ` by ${itemAt(graph.nodes, edge.job).label}`;
    const code = edge.code.map((line) => ` | ${line.replaceAll(/\s+/g, " ")}`).join("");
    return `${"  ".repeat(depth + 1)}← ${columnLabel(graph, edge.source)}  [${transformationLabel(edge)}${job}${code}]`;
  });
  return [columnLabel(graph, active), ...hops, "", ...nodes].join("\n");
}
