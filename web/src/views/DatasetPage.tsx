import { useState } from "react";
import type { Column, ColumnSource, DatasetView, Touch } from "../documents";
import { FacetList } from "../facets/FacetList";
import { LineChart } from "../parts/LineChart";
import { Loaded, useFetched } from "../parts/Loaded";
import { Ago, DatasetLink, Heading, JobLink, lastPart, Nothing, StateMark } from "../parts/marks";
import { href, lineageHref, type Place } from "../router";
import { count, plural, shownOf } from "../words";
import { Title } from "./Title";

const MOST_COLUMNS = 200;

export function DatasetPage({ place }: { place: Place }) {
  const values = new URLSearchParams();
  for (const name of ["namespace", "name"]) values.set(name, place.values.get(name) ?? "");
  const view = useFetched<DatasetView>(`api/v2/pages/dataset?${values}`);
  return <Loaded of={view}>{(dataset) => <Dataset view={dataset} wanted={place.values.get("column") ?? ""} />}</Loaded>;
}

function Dataset({ view, wanted }: { view: DatasetView; wanted: string }) {
  const facts = [
    plural(view.columns.length, "column"),
    plural(view.versionTotal, "version"),
    view.versions[0]?.rowCount == null ? "" : `${count(view.versions[0].rowCount)} rows`,
  ];
  return (
    <>
      <Title
        kind="dataset"
        name={lastPart(view.dataset.name)}
        whole={view.dataset}
        facts={facts.filter(Boolean)}
        at={view.at}
        mark={view.isDeleted ? <span className="state">gone</span> : null}
      >
        <a className="button" href={lineageHref("dataset", view.dataset)}>
          Show lineage
        </a>
      </Title>
      {view.names.length > 0 && (
        <p className="aside">
          Also known as{" "}
          {view.names.map((name) => (
            <DatasetLink key={`${name.namespace} ${name.name}`} dataset={name}>
              {name.namespace} {name.name}
            </DatasetLink>
          ))}
        </p>
      )}
      <div className="columns-2">
        <div>
          <Columns view={view} wanted={wanted} />
          <FacetList
            facets={view.facets}
            leaveOut={["columnLineage"]}
            node={`dataset:${view.dataset.namespace}:${view.dataset.name}`}
          />
        </div>
        <div>
          <Touching title="Written by" touches={view.producers} empty="No job is known to write it." />
          <Touching title="Read by" touches={view.consumers} empty="No job is known to read it." />
          {view.series.length > 0 && (
            <section className="panel">
              <Heading>Over time</Heading>
              {view.series.map((series) => (
                <LineChart key={series.name} series={series} />
              ))}
            </section>
          )}
          <Versions view={view} />
        </div>
      </div>
    </>
  );
}

function Columns({ view, wanted }: { view: DatasetView; wanted: string }) {
  const [text, setText] = useState(wanted);
  const [isWhole, setWhole] = useState(false);
  const found = view.columns.filter((column) => column.name.toLowerCase().includes(text.toLowerCase()));
  const shown = isWhole ? found : found.slice(0, MOST_COLUMNS);
  return (
    <section className="panel">
      <Heading shown={shown.length} total={view.columns.length}>
        Columns
      </Heading>
      {view.columns.length > 12 && (
        <label className="filter">
          <span className="unseen">Find a column</span>
          <input type="search" value={text} placeholder="Find a column" onChange={(e) => setText(e.target.value)} />
        </label>
      )}
      {view.columns.length === 0 && <Nothing>No event has told of its columns.</Nothing>}
      {shown.length > 0 && (
        <table className="grid">
          <thead>
            <tr>
              <th scope="col">column</th>
              <th scope="col">type</th>
              <th scope="col">comes from</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((column) => (
              <ColumnRow key={column.name} view={view} column={column} />
            ))}
          </tbody>
        </table>
      )}
      {shown.length < found.length && (
        <button type="button" className="quiet" onClick={() => setWhole(true)}>
          {shownOf(shown.length, found.length)}: show all
        </button>
      )}
      {view.whole.length > 0 && (
        <p className="aside">
          All columns depend on <Origins sources={view.whole} />
        </p>
      )}
    </section>
  );
}

function ColumnRow({ view, column }: { view: DatasetView; column: Column }) {
  return (
    <tr>
      <td>
        <a href={lineageHref("dataset", view.dataset, column.name)} title={`Lineage of ${column.name}`}>
          <bdi>{column.name}</bdi>
        </a>
        {column.description && <small className="below">{column.description}</small>}
      </td>
      <td>
        <code>{column.type}</code>
      </td>
      <td>
        {column.sources.length > 0 ? <Origins sources={column.sources} /> : <span className="faint">unknown</span>}
      </td>
    </tr>
  );
}

const MOST_ORIGINS = 4;

function Origins({ sources }: { sources: readonly ColumnSource[] }) {
  const rest = sources.length - MOST_ORIGINS;
  return (
    <ul className="inline">
      {sources.slice(0, MOST_ORIGINS).map((source) => (
        <li
          key={`${source.dataset.namespace} ${source.dataset.name} ${source.column} ${source.subtype}`}
          data-indirect={source.type === "INDIRECT" || undefined}
        >
          <DatasetLink dataset={source.dataset}>
            {lastPart(source.dataset.name)}
            {source.column === null ? "" : ` · ${source.column}`}
          </DatasetLink>
          <small>
            {[source.subtype?.toLowerCase().replaceAll("_", " "), source.isGuessed && "guessed"]
              .filter(Boolean)
              .join(", ")}
          </small>
        </li>
      ))}
      {rest > 0 && <li className="faint">and {rest} more</li>}
    </ul>
  );
}

export function Touching({
  title,
  touches,
  empty,
  kind = "job",
}: {
  title: string;
  touches: readonly Touch[];
  empty: string;
  kind?: "job" | "dataset";
}) {
  return (
    <section className="panel">
      <Heading total={touches.length}>{title}</Heading>
      {touches.length === 0 && <Nothing>{empty}</Nothing>}
      <ul className="rows">
        {touches.map((touch) => (
          <li key={`${touch.node.namespace} ${touch.node.name}`}>
            {kind === "job" ? <JobLink job={touch.node} /> : <DatasetLink dataset={touch.node} />}
            <small className="faint">
              <bdi>{touch.node.namespace}</bdi>
              {touch.isImplied && ", by its lineage alone"}
            </small>
            <span className="end">
              {touch.state && kind === "job" && <StateMark state={touch.state} />}
              {touch.runUuid ? (
                <a href={href("job-run", {}, touch.runUuid)}>
                  <Ago at={touch.at} />
                </a>
              ) : (
                <Ago at={touch.at} />
              )}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Versions({ view }: { view: DatasetView }) {
  return (
    <section className="panel">
      <Heading shown={view.versions.length} total={view.versionTotal}>
        Versions
      </Heading>
      {view.versions.length === 0 && <Nothing>No completed write was seen.</Nothing>}
      <ul className="rows">
        {view.versions.map((version, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: versions keep their order
          <li key={i}>
            <span>
              {version.lifecycle?.toLowerCase() ??
                (version.rowCount === null ? "written" : `${count(version.rowCount)} rows`)}
              {version.hasNewSchema && <em className="tag">new schema</em>}
            </span>
            <small className="faint">{version.version && <bdi>version {version.version}</bdi>}</small>
            <span className="end">
              {version.runUuid ? (
                <a href={href("job-run", {}, version.runUuid)}>
                  <Ago at={version.at} />
                </a>
              ) : (
                <Ago at={version.at} />
              )}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
