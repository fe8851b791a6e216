import { useMemo } from "react";
import { useApi } from "../api/client";
import type { LineageGraphView } from "../api/types";
import { AsyncContent } from "../components/AsyncContent";
import { StateBadge } from "../components/badges";
import controls from "../components/controls.module.css";
import layout from "../components/layout.module.css";
import { PageTitle } from "../components/PageTitle";
import { SearchBox } from "../components/SearchBox";
import { formatDate, pluralize } from "../format";
import canvas from "../graph/Canvas.module.css";
import { Legend } from "../graph/Legend";
import { LineageCanvas } from "../graph/LineageCanvas";
import { LineageContext, useLineageSelection } from "../graph/lineageContext";
import { datasetUrl, jobUrl, type Route, updateQuery } from "../router";
import { ColumnSelectionContext } from "../selection/useColumnSelection";
import { AsOfSlider } from "./AsOfSlider";
import styles from "./LineagePage.module.css";
import { LineagePanel, LineageText } from "./LineagePanel";

/** The graph around a dataset or a job, or the path from one to another. */
export function LineagePage({ route: { params } }: { route: Route }) {
  const node = params.get("node");
  const path = useMemo(() => {
    if (node === null) return null;
    const query = new URLSearchParams({ node });
    for (const side of params.getAll("open")) query.append("open", side);
    for (const name of ["depth", "asOf", "group", "to"]) {
      const value = params.get(name);
      if (value) query.set(name, value);
    }
    return `api/v2/pages/graph?${query}`;
  }, [node, params]);
  const graph = useApi<LineageGraphView>(path);
  if (node === null) {
    return (
      <div className={layout.welcome}>
        <h1>Search for a dataset, column or job</h1>
        <SearchBox isLarge />
        <p className={layout.facts}>The lineage graph starts there, with one hop in each direction.</p>
      </div>
    );
  }
  return (
    <AsyncContent state={graph}>
      {(value) => <Lineage key={`${value.centre} ${params.get("to")}`} graph={value} params={params} />}
    </AsyncContent>
  );
}

const DEPTHS: readonly [string, string][] = [
  ["1", "1 hop"],
  ["2", "2"],
  ["3", "3"],
  ["20", "all"],
];

function Lineage({ graph, params }: { graph: LineageGraphView; params: URLSearchParams }) {
  const selection = useLineageSelection(graph, params);
  const centre = graph.nodes.find((node) => node.id === graph.centre);
  const name = { namespace: centre?.namespace ?? "", name: centre?.name ?? "" };
  const asOf = params.get("asOf");
  return (
    <ColumnSelectionContext value={selection}>
      <LineageContext value={selection}>
        <PageTitle
          kind={centre?.kind ?? "node"}
          name={centre?.label ?? ""}
          fullName={name}
          badge={centre?.state ? <StateBadge state={centre.state} /> : null}
        >
          <a className={controls.button} href={centre?.kind === "job" ? jobUrl(name) : datasetUrl(name)}>
            Open {centre?.kind ?? "node"}
          </a>
        </PageTitle>
        <Toolbar graph={graph} params={params} />
        {asOf && <p className={layout.remark}>As of {formatDate(asOf)}: later events are excluded.</p>}
        {params.has("text") && <LineageText />}
        <div className={`${canvas.stage} ${styles.stage}`} data-graph="lineage">
          <LineageCanvas />
          <LineagePanel />
        </div>
        <Legend />
      </LineageContext>
    </ColumnSelectionContext>
  );
}

function Toolbar({ graph, params }: { graph: LineageGraphView; params: URLSearchParams }) {
  const depth = params.get("depth") ?? "1";
  const isGrouped = params.get("group") === "1";
  const isTextShown = params.has("text");
  const isPath = params.has("to");
  const hidden = graph.nodes.reduce((sum, node) => sum + node.hiddenUpstream + node.hiddenDownstream, 0);
  return (
    <div className={controls.toolbar}>
      {!isPath && (
        <fieldset className={controls.segments}>
          <legend className="visually-hidden">Hops in each direction</legend>
          {DEPTHS.map(([hops, label]) => (
            <button
              key={hops}
              type="button"
              aria-pressed={depth === hops}
              onClick={() => updateQuery({ depth: hops === "1" ? null : hops, open: null })}
            >
              {label}
            </button>
          ))}
        </fieldset>
      )}
      <button
        type="button"
        className={controls.button}
        aria-pressed={isGrouped}
        onClick={() => updateQuery({ group: isGrouped ? null : "1" })}
      >
        Group by namespace
      </button>
      <button
        type="button"
        className={controls.button}
        aria-pressed={isTextShown}
        onClick={() => updateQuery({ text: isTextShown ? null : "1" })}
      >
        As text
      </button>
      {isPath ? (
        <button type="button" className={controls.button} onClick={() => updateQuery({ to: null })}>
          Clear path ×
        </button>
      ) : (
        <PathPicker graph={graph} />
      )}
      <span className={layout.facts} role="status">
        {pluralize(graph.nodes.length, "node")}
        {hidden > 0 && `, ${pluralize(hidden, "hidden neighbour")}`}
        {graph.isTruncated && ", truncated"}
      </span>
      <AsOfSlider range={graph.timeRange} value={params.get("asOf")} />
    </div>
  );
}

/** Choose a node of the graph as the end of a path. */
function PathPicker({ graph }: { graph: LineageGraphView }) {
  const others = graph.nodes.filter((node) => node.id !== graph.centre);
  return (
    <select
      aria-label="Find path to"
      value=""
      onChange={(event) => updateQuery({ to: event.target.value, open: null })}
    >
      <option value="">Find path to…</option>
      {others.map((node) => (
        <option key={node.id} value={node.id}>
          {node.label} ({node.kind})
        </option>
      ))}
    </select>
  );
}
