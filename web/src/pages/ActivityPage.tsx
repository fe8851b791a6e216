import { useApi } from "../api/client";
import type { Activity, RunListView } from "../api/types";
import { AsyncContent, EmptyPage } from "../components/AsyncContent";
import { DatasetLink, RunDuration, RunLink, StateBadge, TestsBadge, TimeAgo } from "../components/badges";
import layout from "../components/layout.module.css";
import { EmptyState, Panel } from "../components/Panel";
import { SearchBox } from "../components/SearchBox";
import { pluralize } from "../format";
import { urlFor } from "../router";

/** The home page without a notebook run: search and recent activity. */
export function ActivityPage() {
  const activity = useApi<Activity>("api/v2/pages/activity");
  return <AsyncContent state={activity}>{(value) => <ActivityContent activity={value} />}</AsyncContent>;
}

function ActivityContent({ activity: { counts, runs, failed, datasets } }: { activity: Activity }) {
  if (counts.runs + counts.datasets + counts.jobs === 0) {
    return (
      <EmptyPage title="No data yet.">
        Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`; then reload this page.
      </EmptyPage>
    );
  }
  return (
    <>
      <div className={layout.welcome}>
        <h1>Search for a dataset, column or job</h1>
        <SearchBox isLarge />
        <p className={layout.facts}>
          <a href={urlFor("datasets")}>{pluralize(counts.datasets, "dataset")}</a>
          <a href={urlFor("jobs")}>{pluralize(counts.jobs, "job")}</a>
          <a href={urlFor("runs")}>{pluralize(counts.runs, "run")}</a>
        </p>
      </div>
      <div className={layout.twoColumns}>
        <Runs title="Recent runs" runs={runs} empty="No runs yet" />
        <div>
          <Runs title="Failed" runs={failed} empty="No failed runs" />
          <Panel title="Recently updated" shown={datasets.items.length} total={datasets.total}>
            <ul className={layout.rows}>
              {datasets.items.map(({ dataset, at }) => (
                <li key={`${dataset.namespace} ${dataset.name}`}>
                  <DatasetLink dataset={dataset} />
                  <small className={layout.faint}>
                    <bdi>{dataset.namespace}</bdi>
                  </small>
                  <span className={layout.rowEnd}>
                    <TimeAgo at={at} />
                  </span>
                </li>
              ))}
            </ul>
          </Panel>
        </div>
      </div>
    </>
  );
}

function Runs({ title, runs, empty }: { title: string; runs: RunListView; empty: string }) {
  return (
    <Panel title={title} shown={runs.items.length} total={runs.total}>
      {runs.items.length === 0 && <EmptyState>{empty}</EmptyState>}
      <ul className={layout.rows}>
        {runs.items.map((run) => (
          <li key={run.runUuid}>
            <RunLink run={run} />
            <small className={layout.faint}>
              <bdi>{run.job?.namespace}</bdi>
            </small>
            <span className={layout.rowEnd}>
              <TestsBadge tests={run.tests} /> <StateBadge state={run.state} /> <RunDuration run={run} />{" "}
              <TimeAgo at={run.startedAt} />
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
