import { type ReactNode, useState } from "react";
import type { DatasetLine, JobLine, RunLine, Some } from "../documents";
import { Heads } from "../facets/parts";
import { Loaded, useFetched } from "../parts/Loaded";
import { Ago, DatasetLink, JobLink, Nothing, RunLink, StateMark, Took } from "../parts/marks";
import { TinyBars } from "../parts/RunBars";
import { change, type Place } from "../router";
import { shownOf } from "../words";
import { Title } from "./Title";

const STEP = 50;
const STATES = ["", "COMPLETED", "FAILED", "RUNNING", "ABORTED"];

interface Props<T> {
  place: Place;
  what: "datasets" | "jobs" | "runs";
  title: string;
  empty: string;
  heads: readonly string[];
  extra?: ReactNode;
  row: (item: T) => ReactNode;
}

function ListPage<T>({ place, what, title, empty, heads, extra, row }: Props<T>) {
  const [limit, setLimit] = useState(STEP);
  const text = place.values.get("text") ?? "";
  const query = new URLSearchParams({ text, limit: `${limit}` });
  const state = place.values.get("state");
  if (state) query.set("state", state);
  const found = useFetched<Some<T>>(`api/v2/pages/${what}?${query}`);
  return (
    <>
      <Title name={title} />
      <div className="tools">
        <input
          type="search"
          aria-label={`Filter ${what}`}
          placeholder={`Filter ${what} by name`}
          defaultValue={text}
          onChange={(event) => change({ text: event.target.value })}
        />
        {extra}
      </div>
      <Loaded of={found}>
        {({ items, total }) => (
          <>
            <p className="facts">
              {shownOf(items.length, total) || `all ${total}`} {what}
            </p>
            {items.length === 0 ? (
              <Nothing>{text || state ? `No ${what} match. Clear the filter to see all.` : empty}</Nothing>
            ) : (
              <table className="grid wide">
                <Heads names={heads} />
                <tbody>{items.map(row)}</tbody>
              </table>
            )}
            {items.length < total && (
              <button type="button" className="button" onClick={() => setLimit(Math.min(500, limit * 2))}>
                Show more
              </button>
            )}
          </>
        )}
      </Loaded>
    </>
  );
}

export function DatasetsPage({ place }: { place: Place }) {
  return (
    <ListPage<DatasetLine>
      place={place}
      what="datasets"
      title="Datasets"
      empty="No event has named a dataset yet."
      heads={["dataset", "namespace", "written by", "last seen"]}
      row={(line) => (
        <tr key={`${line.dataset.namespace} ${line.dataset.name}`}>
          <td>
            <DatasetLink dataset={line.dataset} /> {line.isDeleted && <span className="state">gone</span>}
          </td>
          <td className="faint">
            <bdi>{line.dataset.namespace}</bdi>
          </td>
          <td>
            {line.producers.map((job) => (
              <JobLink key={`${job.namespace} ${job.name}`} job={job} />
            ))}
          </td>
          <td>
            <Ago at={line.at} />
          </td>
        </tr>
      )}
    />
  );
}

export function JobsPage({ place }: { place: Place }) {
  return (
    <ListPage<JobLine>
      place={place}
      what="jobs"
      title="Jobs and notebooks"
      empty="No event has named a job yet."
      heads={["job", "namespace", "kind", "last runs", "state", "last seen"]}
      row={(line) => (
        <tr key={`${line.job.namespace} ${line.job.name}`}>
          <td>
            <JobLink job={line.job} />
          </td>
          <td className="faint">
            <bdi>{line.job.namespace}</bdi>
          </td>
          <td className="faint">{line.kind?.toLowerCase()}</td>
          <td>
            {line.runs.length > 0 && <TinyBars runs={line.runs} />} <small className="faint">{line.runTotal}</small>
          </td>
          <td>{line.state && <StateMark state={line.state} />}</td>
          <td>
            <Ago at={line.at} />
          </td>
        </tr>
      )}
    />
  );
}

export function RunsPage({ place }: { place: Place }) {
  const state = place.values.get("state") ?? "";
  return (
    <ListPage<RunLine>
      place={place}
      what="runs"
      title="Runs"
      empty="No run was seen yet."
      heads={["run of", "namespace", "state", "took", "started"]}
      extra={
        <select aria-label="State" value={state} onChange={(event) => change({ state: event.target.value })}>
          {STATES.map((one) => (
            <option key={one} value={one}>
              {one ? one.toLowerCase() : "any state"}
            </option>
          ))}
        </select>
      }
      row={(run) => (
        <tr key={run.runUuid}>
          <td>
            <RunLink run={run} />
            {run.error && <small className="below bad">{run.error}</small>}
          </td>
          <td className="faint">
            <bdi>{run.job?.namespace}</bdi>
          </td>
          <td>
            <StateMark state={run.state} />
          </td>
          <td>
            <Took run={run} />
          </td>
          <td>
            <Ago at={run.startedAt} />
          </td>
        </tr>
      )}
    />
  );
}
