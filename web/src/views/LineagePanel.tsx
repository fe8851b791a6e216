import { useMemo, useState } from "react";
import type { LineageEdge, LineageGraph } from "../documents";
import { downstreamOf, edgesAt, type Lineage, portKey } from "../lineage";
import { at, type Port } from "../page";
import { plural } from "../words";
import { useLineageFollowed } from "./lineageFollow";

/** Where the followed column comes from, hop by hop, and what would change with it. */
export function LineagePanel() {
  const { graph, lineage, active } = useLineageFollowed();
  const hops = useMemo(() => (active ? hopsOf(graph, lineage, active) : []), [graph, lineage, active]);
  const impact = useMemo(() => (active ? impactOf(graph, lineage, active) : null), [graph, lineage, active]);
  const hasColumns = graph.edges.length > 0;
  if (!active) {
    return (
      <aside className="origin" aria-label="Where the column comes from" tabIndex={0}>
        <h2>Columns</h2>
        <p className="empty">
          {hasColumns
            ? "Point at a column to see its way through the graph; press it to keep it."
            : "No event has told how the columns here depend on each other."}
        </p>
      </aside>
    );
  }
  return (
    <aside className="origin" aria-label="Where the column comes from" tabIndex={0}>
      <h3 className="column-name">
        <bdi>{portName(graph, active)}</bdi>
      </h3>
      <h2>Where it comes from</h2>
      {hops.length === 0 ? (
        <p className="empty">From outside what is shown, or not known.</p>
      ) : (
        <Hops hops={hops} graph={graph} />
      )}
      <h2>If you change it</h2>
      <p>{impact}</p>
    </aside>
  );
}

interface HopLine {
  depth: number;
  edge: LineageEdge;
  isRepeated: boolean;
}

/** The edges upstream of a column, depth first; what only sways is named and not followed. */
export function hopsOf(graph: LineageGraph, lineage: Lineage<LineageEdge>, root: Port): HopLine[] {
  const found: HopLine[] = [];
  const seen = new Set<string>();
  const visit = (port: Port, depth: number) => {
    const isRepeated = seen.has(portKey(port));
    seen.add(portKey(port));
    if (isRepeated || found.length > 500) return;
    const edges = edgesAt(lineage.into, port).map((i) => at(graph.edges, i));
    for (const edge of edges.toSorted((a, b) => Number(a.type === "INDIRECT") - Number(b.type === "INDIRECT"))) {
      found.push({ depth, edge, isRepeated: seen.has(portKey(edge.source)) });
      if (edge.type === "DIRECT" && edge.source.column !== null) visit(edge.source, depth + 1);
    }
  };
  visit(root, 0);
  return found;
}

function Hops({ hops, graph }: { hops: readonly HopLine[]; graph: LineageGraph }) {
  return (
    <ul className="hop-list">
      {hops.map(({ depth, edge, isRepeated }, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: hops keep their order
        <li key={i} style={{ marginInlineStart: depth * 14 }} data-indirect={edge.type === "INDIRECT" || undefined}>
          <b>
            <bdi>{portName(graph, edge.source)}</bdi>
          </b>{" "}
          <span className="way">{wayOf(edge)}</span>{" "}
          {edge.job !== null && (
            <span className="place">
              by <bdi>{at(graph.nodes, edge.job).label}</bdi>
            </span>
          )}
          {isRepeated && <span className="place">as above</span>}
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

function wayOf(edge: LineageEdge): string {
  const kind = edge.subtype?.toLowerCase().replaceAll("_", " ") ?? "";
  const way = kind === "identity" ? "as it is" : kind;
  return [edge.type === "INDIRECT" ? `${way || "influence"}, indirect` : way, edge.flag && "guessed"]
    .filter(Boolean)
    .join(", ");
}

function portName(graph: LineageGraph, port: Port): string {
  return `${at(graph.nodes, port.state).label} · ${port.column ?? "all columns"}`;
}

function impactOf(graph: LineageGraph, lineage: Lineage<LineageEdge>, port: Port): string {
  const path = downstreamOf(lineage, port);
  const columns = [...path.ports].filter(([key]) => key !== portKey(port));
  const direct = columns.filter(([, strength]) => strength === "direct").length;
  const jobs = new Set([...path.edges.keys()].map((i) => at(graph.edges, i).job)).size;
  const node = at(graph.nodes, port.state);
  const beyond = graph.nodes.reduce((sum, one) => sum + one.hiddenDownstream, 0);
  if (columns.length === 0) {
    return beyond > 0
      ? "Nothing that is shown; more is hidden downstream."
      : `Nothing known depends on it beyond ${node.label}.`;
  }
  const swayed = columns.length - direct;
  const words = [`${plural(direct, "column")} ${direct === 1 ? "takes" : "take"} its values`];
  if (swayed > 0) words.push(`${plural(swayed, "more column")} ${swayed === 1 ? "is" : "are"} only swayed by it`);
  return `${words.join("; ")}, through ${plural(jobs, "job")}${beyond > 0 ? ". More is hidden downstream." : "."}`;
}

/** The same graph in words: every node with what it reads from and leads to, and the followed column's hops. */
export function LineageText() {
  const { graph, lineage, active } = useLineageFollowed();
  const [said, setSaid] = useState("copy");
  const text = graphText(graph, lineage, active);
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setSaid("copied"),
      () => setSaid("select and copy by hand"),
    );
  };
  return (
    <section className="twin" aria-label="The graph as text">
      <button type="button" className="quiet" onClick={copy}>
        {said}
      </button>
      <pre tabIndex={0}>{text}</pre>
    </section>
  );
}

export function graphText(graph: LineageGraph, lineage: Lineage<LineageEdge>, active: Port | null): string {
  const labels = new Map(graph.nodes.map((node) => [node.id, node.label]));
  const lines = graph.nodes.map((node) => {
    const from = graph.links.filter((link) => link.target === node.id).map((link) => labels.get(link.source));
    const to = graph.links.filter((link) => link.source === node.id).map((link) => labels.get(link.target));
    const hidden = [
      node.hiddenUpstream && `${node.hiddenUpstream} more upstream`,
      node.hiddenDownstream && `${node.hiddenDownstream} more downstream`,
    ].filter(Boolean);
    const parts = [
      `${node.kind} ${node.namespace} · ${node.name}${node.id === graph.centre ? " (here)" : ""}`,
      from.length ? `  ← ${from.join(", ")}` : "",
      to.length ? `  → ${to.join(", ")}` : "",
      hidden.length ? `  … ${hidden.join(", ")}` : "",
    ];
    return parts.filter(Boolean).join("\n");
  });
  if (!active) return lines.join("\n");
  const hops = hopsOf(graph, lineage, active).map(({ depth, edge }) => {
    const job = edge.job === null ? "" : ` by ${at(graph.nodes, edge.job).label}`;
    const code = edge.code.map((one) => ` | ${one.replaceAll(/\s+/g, " ")}`).join("");
    return `${"  ".repeat(depth + 1)}← ${portName(graph, edge.source)}  [${wayOf(edge)}${job}${code}]`;
  });
  return [portName(graph, active), ...hops, "", ...lines].join("\n");
}
