import { Fragment } from "react";
import { useApi } from "../api/client";
import type { RunIoView, RunListItem, RunView } from "../api/types";
import { AsyncContent } from "../components/AsyncContent";
import { DatasetLink, JobLink, RunLink, StateBadge, TestsBadge } from "../components/badges";
import controls from "../components/controls.module.css";
import { ErrorBox } from "../components/ErrorBox";
import layout from "../components/layout.module.css";
import { PageTitle } from "../components/PageTitle";
import { EmptyState, Panel } from "../components/Panel";
import { TestResults } from "../components/TestResults";
import { TimeTrack } from "../components/TimeTrack";
import { FacetCard, FacetDetails, FacetList } from "../facets/FacetList";
import { baseName, elapsedMs, formatCount, formatDate, formatDuration } from "../format";
import { type Route, runUrl, urlFor } from "../router";
import styles from "./RunDetailPage.module.css";

/** With more inputs or outputs, their facets are collapsed. */
const MAX_OPEN = 3;

export function RunDetailPage({ route }: { route: Route }) {
  const view = useApi<RunView>(`api/v2/pages/run/${encodeURIComponent(route.id ?? "")}`);
  return <AsyncContent state={view}>{(value) => <RunDetail view={value} />}</AsyncContent>;
}

function RunDetail({ view }: { view: RunView }) {
  const { run } = view;
  const facts = [
    formatDate(run.startedAt),
    formatDuration(elapsedMs(run.startedAt, run.endedAt)),
    view.nominalStart ? `for ${formatDate(view.nominalStart)}` : "",
  ];
  return (
    <>
      <PageTitle
        kind="run"
        name={run.job?.name || run.runUuid}
        facts={[...facts.filter(Boolean), run.runUuid]}
        badge={
          <>
            <StateBadge state={run.state} /> <TestsBadge tests={run.tests} />
          </>
        }
      >
        {run.sessionId && (
          <a className={controls.button} href={urlFor("run", {}, run.sessionId)}>
            Open notebook run
          </a>
        )}
        {view.previous && (
          <a className={controls.button} href={urlFor("diff", { before: view.previous.runUuid, after: run.runUuid })}>
            Compare with previous run
          </a>
        )}
      </PageTitle>
      <Relations view={view} />
      {"errorMessage" in view.facets ? (
        <FacetCard name="errorMessage" facet={view.facets.errorMessage} />
      ) : (
        view.error && <ErrorBox message={view.error} />
      )}
      {"extractionError" in view.facets && <FacetCard name="extractionError" facet={view.facets.extractionError} />}
      {view.children.length > 0 && (
        <Panel title="Child runs" shown={view.children.length} total={view.childTotal}>
          <ChildRuns runs={view.children} parent={run} />
        </Panel>
      )}
      <TestResults results={view.assertions} of="run" />
      <div className={layout.twoColumns}>
        <Datasets title="Inputs" datasets={view.inputs} />
        <Datasets title="Outputs" datasets={view.outputs} />
      </div>
      <IoFacets title="Input facets" datasets={view.inputs} />
      <IoFacets title="Output facets" datasets={view.outputs} />
      <FacetList facets={view.facets} exclude={["errorMessage", "extractionError"]} />
      <FacetDetails title="Job facets" facets={view.jobFacets} />
    </>
  );
}

/** The job and the parent of a run. */
function Relations({ view: { run, parent, parentJob } }: { view: RunView }) {
  const parts = [
    run.job && (
      <>
        Run of <JobLink job={run.job} />
      </>
    ),
    parent && (
      <>
        {run.job ? "child of" : "Child of"} <RunLink run={parent} />
      </>
    ),
    parentJob && (
      <>
        {run.job ? "child of a run of" : "Child of a run of"} <JobLink job={parentJob} />
      </>
    ),
  ].filter(Boolean);
  return (
    <p className={layout.remark}>
      {parts.map((part, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the order of parts is fixed
        <Fragment key={i}>
          {i > 0 && ", "}
          {part}
        </Fragment>
      ))}
    </p>
  );
}

function ChildRuns({ runs, parent }: { runs: readonly RunListItem[]; parent: RunListItem }) {
  const starts = [...runs, parent].flatMap((run) => (run.startedAt ? [Date.parse(run.startedAt)] : []));
  const ends = [...runs, parent].flatMap((run) => (run.endedAt ? [Date.parse(run.endedAt)] : []));
  const from = Math.min(...starts);
  const length = Math.max(1, Math.max(...ends, ...starts) - from);
  return (
    <ul className={styles.childRuns}>
      {runs.map((run) => {
        const start = run.startedAt ? Date.parse(run.startedAt) : from;
        const durationMs = elapsedMs(run.startedAt, run.endedAt);
        return (
          <li key={run.runUuid}>
            <span className={styles.name}>
              <a href={runUrl(run)} title={run.runUuid}>
                <bdi>{run.job?.name || run.runUuid}</bdi>
              </a>
              <TestsBadge tests={run.tests} />
            </span>
            <TimeTrack
              start={(start - from) / length}
              length={(durationMs ?? 0) / length}
              isFailed={run.state === "FAILED"}
            />
            <small>{formatDuration(durationMs)}</small>
          </li>
        );
      })}
    </ul>
  );
}

function Datasets({ title, datasets }: { title: string; datasets: readonly RunIoView[] }) {
  return (
    <Panel title={title} total={datasets.length}>
      {datasets.length === 0 && <EmptyState>None</EmptyState>}
      <ul className={layout.rows}>
        {datasets.map(({ dataset, version, isImplied, rowCount }) => (
          <li key={`${dataset.namespace} ${dataset.name} ${version}`}>
            <DatasetLink dataset={dataset} />
            <small className={layout.faint}>
              <bdi>{dataset.namespace}</bdi>
              {isImplied && ", from column lineage only"}
            </small>
            <span className={layout.rowEnd}>{rowCount === null ? "" : `${formatCount(rowCount)} rows`}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** Facets of the inputs or outputs in this run; tests have their own table. */
function IoFacets({ title, datasets }: { title: string; datasets: readonly RunIoView[] }) {
  const described = datasets.map(({ dataset, version, facets: { dataQualityAssertions, ...facets } }) => ({
    key: `${dataset.namespace} ${dataset.name} ${version}`,
    label: `${title} of ${baseName(dataset.name)}`,
    facets,
  }));
  const shown = described.filter(({ facets }) => Object.keys(facets).length > 0);
  return shown.map(({ key, label, facets }) => (
    <FacetDetails key={key} title={label} facets={facets} isOpen={shown.length <= MAX_OPEN} />
  ));
}
