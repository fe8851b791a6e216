import { useMemo } from "react";
import type { LineageGraph } from "../documents";
import { Loaded, useFetched } from "../parts/Loaded";
import { StateMark } from "../parts/marks";
import { Legend } from "../RunTab";
import { change, datasetHref, jobHref, type Place } from "../router";
import { SearchBox } from "../SearchBox";
import { moment } from "../words";
import { AsOf } from "./AsOf";
import { LineageCanvas } from "./LineageCanvas";
import { LineagePanel, LineageText } from "./LineagePanel";
import { LineageContext, useLineage } from "./lineageFollow";
import { Title } from "./Title";

/** The graph around a dataset or a job, or the way from one to another. */
export function LineagePage({ place }: { place: Place }) {
  const node = place.values.get("node");
  const to = place.values.get("to");
  const path = useMemo(() => {
    if (node === null) return null;
    const query = new URLSearchParams({ node });
    for (const opening of place.values.getAll("open")) query.append("open", opening);
    for (const name of ["depth", "asOf", "group", "to"]) {
      const value = place.values.get(name);
      if (value) query.set(name, value);
    }
    return `api/v2/pages/graph?${query}`;
  }, [node, place]);
  const graph = useFetched<LineageGraph>(path);
  if (node === null) {
    return (
      <div className="welcome">
        <h1>Whose lineage?</h1>
        <SearchBox isLarge />
        <p className="facts">A dataset, a column or a job: the graph begins there, one hop each way.</p>
      </div>
    );
  }
  return <Loaded of={graph}>{(found) => <Lineage key={`${found.centre} ${to}`} graph={found} place={place} />}</Loaded>;
}

const DEPTHS = ["1", "2", "3", "20"];

function Lineage({ graph, place }: { graph: LineageGraph; place: Place }) {
  const follow = useLineage(graph, place.values.get("column"));
  const centre = graph.nodes.find((node) => node.id === graph.centre);
  const depth = place.values.get("depth") ?? "1";
  const isGrouped = place.values.get("group") === "1";
  const asText = place.values.has("text");
  const to = place.values.get("to");
  const hidden = graph.nodes.reduce((sum, node) => sum + node.hiddenUpstream + node.hiddenDownstream, 0);
  const name = { namespace: centre?.namespace ?? "", name: centre?.name ?? "" };
  return (
    <LineageContext value={follow}>
      <Title
        kind={centre?.kind ?? "node"}
        name={centre?.label ?? ""}
        whole={name}
        mark={centre?.state ? <StateMark state={centre.state} /> : null}
      >
        <a className="button" href={centre?.kind === "job" ? jobHref(name) : datasetHref(name)}>
          Open its page
        </a>
      </Title>
      <div className="tools">
        {!to && (
          <fieldset className="segments">
            <legend className="unseen">Hops each way</legend>
            {DEPTHS.map((hops) => (
              <button
                key={hops}
                type="button"
                aria-pressed={depth === hops}
                onClick={() => change({ depth: hops === "1" ? null : hops, open: null })}
              >
                {hops === "1" ? "1 hop" : hops === "20" ? "all" : hops}
              </button>
            ))}
          </fieldset>
        )}
        <button
          type="button"
          className="button"
          aria-pressed={isGrouped}
          onClick={() => change({ group: isGrouped ? null : "1" })}
        >
          Group by namespace
        </button>
        <button
          type="button"
          className="button"
          aria-pressed={asText}
          onClick={() => change({ text: asText ? null : "1" })}
        >
          As text
        </button>
        {to ? (
          <button type="button" className="button" onClick={() => change({ to: null })}>
            Leave the path ×
          </button>
        ) : (
          <PathPicker graph={graph} />
        )}
        <span className="facts" role="status">
          {graph.nodes.length} {graph.nodes.length === 1 ? "node" : "nodes"}
          {hidden > 0 && `, ${hidden} more next to them`}
          {graph.isCut && ", cut: more than fits"}
        </span>
        <AsOf span={graph.span} value={place.values.get("asOf")} />
      </div>
      {place.values.get("asOf") && (
        <p className="aside">As it was {moment(place.values.get("asOf"))}: what was not yet known then is left out.</p>
      )}
      {asText && <LineageText />}
      <div className="graph-stage lineage">
        <LineageCanvas graph={graph} openings={place.values.getAll("open")} />
        <LineagePanel />
      </div>
      <Legend />
    </LineageContext>
  );
}

/** To where: any node of the graph that is shown, or what the search finds. */
function PathPicker({ graph }: { graph: LineageGraph }) {
  const others = graph.nodes.filter((node) => node.id !== graph.centre);
  return (
    <select aria-label="Show the path to" value="" onChange={(event) => change({ to: event.target.value, open: null })}>
      <option value="">Path to …</option>
      {others.map((node) => (
        <option key={node.id} value={node.id}>
          {node.label} ({node.kind})
        </option>
      ))}
    </select>
  );
}
