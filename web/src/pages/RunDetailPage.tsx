import { useApi } from "../api/client";
import type { RunIoView, RunListItem, RunView } from "../api/types";
import { AsyncContent } from "../components/AsyncContent";
import { DatasetLink, JobLink, RunLink, StateBadge } from "../components/badges";
import controls from "../components/controls.module.css";
import { ErrorBox } from "../components/ErrorBox";
import layout from "../components/layout.module.css";
import { PageTitle } from "../components/PageTitle";
import { EmptyState, Panel } from "../components/Panel";
import { TimeTrack } from "../components/TimeTrack";
import { FacetCard, FacetDetails, FacetList } from "../facets/FacetList";
import { baseName, elapsedMs, formatCount, formatDate, formatDuration } from "../format";
import { type Route, runUrl, urlFor } from "../router";
import styles from "./RunDetailPage.module.css";

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
        name={run.job?.name ?? run.runUuid}
        facts={[...facts.filter(Boolean), run.runUuid]}
        badge={<StateBadge state={run.state} />}
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
      <p className={layout.remark}>
        {run.job && (
          <>
            Run of <JobLink job={run.job} />
          </>
        )}
        {view.parent && (
          <>
            , child of <RunLink run={view.parent} />
          </>
        )}
      </p>
      {"errorMessage" in view.facets ? (
        <FacetCard name="errorMessage" facet={view.facets.errorMessage} />
      ) : (
        view.error && <ErrorBox message={view.error} />
      )}
      {view.children.length > 0 && (
        <Panel title="Child runs" shown={view.children.length} total={view.childTotal}>
          <ChildRuns runs={view.children} parent={run} />
        </Panel>
      )}
      <div className={layout.twoColumns}>
        <Datasets title="Inputs" datasets={view.inputs} />
        <Datasets title="Outputs" datasets={view.outputs} />
      </div>
      <FacetList facets={view.facets} exclude={["errorMessage"]} />
      <FacetDetails title="Job facets" facets={view.jobFacets} />
    </>
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
            <a href={runUrl(run)} title={run.runUuid}>
              <bdi>{run.job?.name ?? run.runUuid}</bdi>
            </a>
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
      {datasets.map(({ dataset, version, facets }) => (
        <FacetDetails
          key={`${dataset.name} ${version}`}
          title={`Facets of ${baseName(dataset.name)} in this run`}
          facets={facets}
        />
      ))}
    </Panel>
  );
}
