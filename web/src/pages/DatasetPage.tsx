import { useState } from "react";
import { useApi } from "../api/client";
import type { ColumnSource, DatasetColumn, DatasetView } from "../api/types";
import { AsyncContent } from "../components/AsyncContent";
import { DatasetLink, DeletedBadge, TestsBadge } from "../components/badges";
import controls from "../components/controls.module.css";
import { Table } from "../components/DataTable";
import { LineChart } from "../components/LineChart";
import { ColumnFilter } from "../components/ListControls";
import layout from "../components/layout.module.css";
import { PageTitle } from "../components/PageTitle";
import { EmptyState, Panel } from "../components/Panel";
import { countTests, TestResults } from "../components/TestResults";
import { FacetList } from "../facets/FacetList";
import { baseName, countLabel, formatCount, nodeLabel, pluralize } from "../format";
import { lineageUrl, type Route } from "../router";
import { transformationLabel } from "../selection/explanation";
import { RunTime, Usages } from "./Usages";

const MAX_COLUMNS = 200;
const MAX_SOURCES = 4;
const MIN_COLUMNS_TO_FILTER = 12;

export function DatasetPage({ route }: { route: Route }) {
  const query = new URLSearchParams();
  for (const name of ["namespace", "name"]) query.set(name, route.params.get(name) ?? "");
  const view = useApi<DatasetView>(`api/v2/pages/dataset?${query}`);
  return (
    <AsyncContent state={view}>
      {(value) => <Dataset view={value} initialFilter={route.params.get("column") ?? ""} />}
    </AsyncContent>
  );
}

function Dataset({ view, initialFilter }: { view: DatasetView; initialFilter: string }) {
  const rowCount = view.versions[0]?.rowCount ?? null;
  const facts = [
    pluralize(view.columns.length, "column"),
    pluralize(view.versionTotal, "version"),
    rowCount === null ? "" : `${formatCount(rowCount)} rows`,
  ];
  return (
    <>
      <PageTitle
        kind="dataset"
        name={baseName(view.dataset.name)}
        fullName={view.dataset}
        facts={facts.filter(Boolean)}
        at={view.at}
        badge={
          <>
            {view.isDeleted && <DeletedBadge />} <TestsBadge tests={countTests(view.assertions)} />
          </>
        }
      >
        <a className={controls.button} href={lineageUrl("dataset", view.dataset)}>
          Show lineage
        </a>
      </PageTitle>
      {view.aliases.length > 0 && (
        <p className={`${layout.remark} ${layout.names}`}>
          Aliases:{" "}
          {view.aliases.map((name) => (
            <DatasetLink key={`${name.namespace} ${name.name}`} dataset={name}>
              {nodeLabel(name)}
            </DatasetLink>
          ))}
        </p>
      )}
      <div className={layout.twoColumns}>
        <div>
          <TestResults results={view.assertions} of="dataset" />
          <Columns view={view} initialFilter={initialFilter} />
          <FacetList
            facets={view.facets}
            exclude={["columnLineage"]}
            node={`dataset:${view.dataset.namespace}:${view.dataset.name}`}
          />
          <FacetList title="Facets of the last reads" facets={view.inputFacets} exclude={["dataQualityAssertions"]} />
          <FacetList title="Facets of the last writes" facets={view.outputFacets} exclude={["dataQualityAssertions"]} />
        </div>
        <div>
          <Usages title="Written by" kind="job" usages={view.producers} empty="No known writers" />
          <Usages title="Read by" kind="job" usages={view.consumers} empty="No known readers" />
          {view.series.length > 0 && (
            <Panel title="Over time">
              {view.series.map((series) => (
                <LineChart key={series.name} series={series} />
              ))}
            </Panel>
          )}
          <Versions view={view} />
        </div>
      </div>
    </>
  );
}

function Columns({ view, initialFilter }: { view: DatasetView; initialFilter: string }) {
  const [filter, setFilter] = useState(initialFilter);
  const [isComplete, setComplete] = useState(false);
  const matches = view.columns.filter((column) => column.name.toLowerCase().includes(filter.toLowerCase()));
  const shown = isComplete ? matches : matches.slice(0, MAX_COLUMNS);
  return (
    <Panel title="Columns" shown={shown.length} total={view.columns.length}>
      {view.columns.length > MIN_COLUMNS_TO_FILTER && <ColumnFilter filter={filter} setFilter={setFilter} />}
      {view.columns.length === 0 && <EmptyState>No schema recorded</EmptyState>}
      {shown.length > 0 && (
        <Table heads={["column", "type", "source columns"]}>
          {shown.map((column) => (
            <ColumnRow key={column.name} view={view} column={column} />
          ))}
        </Table>
      )}
      {shown.length < matches.length && (
        <button type="button" className={controls.quiet} onClick={() => setComplete(true)}>
          {countLabel(shown.length, matches.length)}: show all
        </button>
      )}
      {view.datasetLevelSources.length > 0 && (
        <p className={layout.remark}>
          All columns depend on <Sources sources={view.datasetLevelSources} />
        </p>
      )}
    </Panel>
  );
}

function ColumnRow({ view, column }: { view: DatasetView; column: DatasetColumn }) {
  return (
    <tr>
      <td>
        <a href={lineageUrl("dataset", view.dataset, column.name)} title={`Lineage of ${column.name}`}>
          <bdi>{column.name}</bdi>
        </a>
        {column.description && <small className={layout.below}>{column.description}</small>}
      </td>
      <td>
        <code>{column.type}</code>
      </td>
      <td>
        {column.sources.length > 0 ? (
          <Sources sources={column.sources} />
        ) : (
          <span className={layout.faint}>unknown</span>
        )}
      </td>
    </tr>
  );
}

function Sources({ sources }: { sources: readonly ColumnSource[] }) {
  const rest = sources.length - MAX_SOURCES;
  return (
    <ul className={layout.inlineList}>
      {sources.slice(0, MAX_SOURCES).map(({ dataset, column, type, subtype, isInferred }) => (
        <li
          key={`${dataset.namespace} ${dataset.name} ${column} ${subtype}`}
          data-indirect={type === "INDIRECT" || undefined}
        >
          <DatasetLink dataset={dataset}>
            {baseName(dataset.name)}
            {column === null ? "" : ` · ${column}`}
          </DatasetLink>
          <small>{transformationLabel({ subtype, flag: isInferred ? "inferred" : null })}</small>
        </li>
      ))}
      {rest > 0 && <li className={layout.faint}>and {rest} more</li>}
    </ul>
  );
}

function Versions({ view }: { view: DatasetView }) {
  return (
    <Panel title="Versions" shown={view.versions.length} total={view.versionTotal}>
      {view.versions.length === 0 && <EmptyState>No completed writes</EmptyState>}
      <ul className={layout.rows}>
        {view.versions.map(({ lifecycle, rowCount, hasNewSchema, version, at, runUuid }, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the order of versions is fixed
          <li key={i}>
            <span>
              {lifecycle?.toLowerCase() ?? (rowCount === null ? "written" : `${formatCount(rowCount)} rows`)}
              {hasNewSchema && <em className={layout.tag}>new schema</em>}
            </span>
            <small className={layout.faint}>{version && <bdi>version {version}</bdi>}</small>
            <span className={layout.rowEnd}>
              <RunTime at={at} runUuid={runUuid} />
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
