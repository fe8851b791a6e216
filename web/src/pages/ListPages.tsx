import { type ReactNode, useState } from "react";
import { useApi } from "../api/client";
import type { DatasetListItem, JobListItem, RunListItem } from "../api/types";
import { AsyncContent } from "../components/AsyncContent";
import {
  DatasetLink,
  DeletedBadge,
  JobLink,
  RunDuration,
  RunLink,
  StateBadge,
  TestsBadge,
  TimeAgo,
} from "../components/badges";
import controls from "../components/controls.module.css";
import { Table } from "../components/DataTable";
import { PAGE_SIZE, ShowMore } from "../components/ListControls";
import layout from "../components/layout.module.css";
import { PageTitle } from "../components/PageTitle";
import { EmptyState } from "../components/Panel";
import { TinyBars } from "../components/RunBars";
import { countLabel } from "../format";
import { type Route, updateQuery } from "../router";

const STATES = ["", "COMPLETED", "FAILED", "RUNNING", "ABORTED"];

interface Props<T> {
  route: Route;
  kind: "datasets" | "jobs" | "runs";
  title: string;
  heads: readonly string[];
  /** Additional filters. */
  filters?: ReactNode;
  row: (item: T) => ReactNode;
}

function ListPage<T>({ route, kind, title, heads, filters, row }: Props<T>) {
  const [limit, setLimit] = useState(PAGE_SIZE);
  const text = route.params.get("text") ?? "";
  const query = new URLSearchParams({ text, limit: `${limit}` });
  const state = route.params.get("state");
  if (state) query.set("state", state);
  const list = useApi<{ items: T[]; total: number }>(`api/v2/pages/${kind}?${query}`);
  return (
    <>
      <PageTitle name={title} />
      <div className={controls.toolbar}>
        <input
          type="search"
          aria-label={`Filter ${kind}`}
          placeholder={`Filter ${kind} by name`}
          defaultValue={text}
          onChange={(event) => updateQuery({ text: event.target.value })}
        />
        {filters}
      </div>
      <AsyncContent state={list}>
        {({ items, total }) => (
          <>
            <p className={layout.facts}>
              {countLabel(items.length, total) || `all ${total}`} {kind}
            </p>
            {items.length === 0 ? (
              <EmptyState>
                {text || state ? `No matching ${kind}. Clear the filter to see all.` : `No ${kind} yet`}
              </EmptyState>
            ) : (
              <Table heads={heads} isWide>
                {items.map(row)}
              </Table>
            )}
            {items.length < total && <ShowMore limit={limit} setLimit={setLimit} />}
          </>
        )}
      </AsyncContent>
    </>
  );
}

export function DatasetsPage({ route }: { route: Route }) {
  return (
    <ListPage<DatasetListItem>
      route={route}
      kind="datasets"
      title="Datasets"
      heads={["dataset", "namespace", "written by", "last seen"]}
      row={({ dataset, isDeleted, producers, at }) => (
        <tr key={`${dataset.namespace} ${dataset.name}`}>
          <td>
            <DatasetLink dataset={dataset} /> {isDeleted && <DeletedBadge />}
          </td>
          <td className={layout.faint}>
            <bdi>{dataset.namespace}</bdi>
          </td>
          <td>
            {producers.map((job) => (
              <JobLink key={`${job.namespace} ${job.name}`} job={job} />
            ))}
          </td>
          <td>
            <TimeAgo at={at} />
          </td>
        </tr>
      )}
    />
  );
}

export function JobsPage({ route }: { route: Route }) {
  return (
    <ListPage<JobListItem>
      route={route}
      kind="jobs"
      title="Jobs and notebooks"
      heads={["job", "namespace", "type", "recent runs", "state", "last seen"]}
      row={({ job, kind, runs, runTotal, state, at }) => (
        <tr key={`${job.namespace} ${job.name}`}>
          <td>
            <JobLink job={job} />
          </td>
          <td className={layout.faint}>
            <bdi>{job.namespace}</bdi>
          </td>
          <td className={layout.faint}>{kind?.toLowerCase()}</td>
          <td>
            {runs.length > 0 && <TinyBars runs={runs} />} <small className={layout.faint}>{runTotal}</small>
          </td>
          <td>{state && <StateBadge state={state} />}</td>
          <td>
            <TimeAgo at={at} />
          </td>
        </tr>
      )}
    />
  );
}

export function RunsPage({ route }: { route: Route }) {
  return (
    <ListPage<RunListItem>
      route={route}
      kind="runs"
      title="Runs"
      heads={["run of", "namespace", "state", "duration", "started"]}
      filters={
        <select
          aria-label="State"
          value={route.params.get("state") ?? ""}
          onChange={(event) => updateQuery({ state: event.target.value })}
        >
          {STATES.map((state) => (
            <option key={state} value={state}>
              {state ? state.toLowerCase() : "any state"}
            </option>
          ))}
        </select>
      }
      row={(run) => (
        <tr key={run.runUuid}>
          <td>
            <RunLink run={run} />
            {run.error && <small className={`${layout.below} ${layout.bad}`}>{run.error}</small>}
          </td>
          <td className={layout.faint}>
            <bdi>{run.job?.namespace}</bdi>
          </td>
          <td>
            <StateBadge state={run.state} /> <TestsBadge tests={run.tests} />
          </td>
          <td>
            <RunDuration run={run} />
          </td>
          <td>
            <TimeAgo at={run.startedAt} />
          </td>
        </tr>
      )}
    />
  );
}
