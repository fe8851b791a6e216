import type { RunData, RunLine, RunView } from "../documents";
import { FacetCard, FacetList } from "../facets/FacetList";
import { Loaded, useFetched } from "../parts/Loaded";
import { DatasetLink, Heading, JobLink, Nothing, RunLink, StateMark } from "../parts/marks";
import { href, type Place, runHref } from "../router";
import { count, duration, lapse, moment } from "../words";
import { Title } from "./Title";

export function JobRunPage({ place }: { place: Place }) {
  const view = useFetched<RunView>(`api/v2/pages/run/${encodeURIComponent(place.rest ?? "")}`);
  return <Loaded of={view}>{(run) => <JobRun view={run} />}</Loaded>;
}

function JobRun({ view }: { view: RunView }) {
  const { run } = view;
  const facts = [
    moment(run.startedAt),
    duration(lapse(run.startedAt, run.endedAt)),
    view.nominalStart ? `for ${moment(view.nominalStart)}` : "",
  ];
  return (
    <>
      <Title
        kind="run"
        name={run.job?.name ?? run.runUuid}
        facts={[...facts.filter(Boolean), run.runUuid]}
        mark={<StateMark state={run.state} />}
      >
        {run.sessionId && (
          <a className="button" href={href("run", {}, run.sessionId)}>
            Show the notebook's run
          </a>
        )}
        {view.previous && (
          <a className="button" href={href("diff", { before: view.previous.runUuid, after: run.runUuid })}>
            Compare with the run before
          </a>
        )}
      </Title>
      <p className="aside">
        {run.job && (
          <>
            A run of <JobLink job={run.job} />
          </>
        )}
        {view.parent && (
          <>
            , part of <RunLink run={view.parent} />
          </>
        )}
      </p>
      {view.error && !("errorMessage" in view.facets) && (
        <div className="failure">
          <b>{view.error}</b>
        </div>
      )}
      {"errorMessage" in view.facets && <FacetCard name="errorMessage" facet={view.facets.errorMessage} />}
      {view.children.length > 0 && (
        <section className="panel">
          <Heading shown={view.children.length} total={view.childTotal}>
            Its parts, in time
          </Heading>
          <TimeBars runs={view.children} within={run} />
        </section>
      )}
      <div className="columns-2">
        <Data title="Read" data={view.inputs} />
        <Data title="Written" data={view.outputs} />
      </div>
      <FacetList facets={view.facets} leaveOut={["errorMessage"]} />
      {Object.keys(view.jobFacets).length > 0 && (
        <details className="more-facets">
          <summary>Facets of the job</summary>
          <FacetList facets={view.jobFacets} />
        </details>
      )}
    </>
  );
}

function TimeBars({ runs, within }: { runs: readonly RunLine[]; within: RunLine }) {
  const starts = [...runs, within].flatMap((run) => (run.startedAt ? [Date.parse(run.startedAt)] : []));
  const ends = [...runs, within].flatMap((run) => (run.endedAt ? [Date.parse(run.endedAt)] : []));
  const from = Math.min(...starts);
  const span = Math.max(1, Math.max(...ends, ...starts) - from);
  return (
    <ul className="time-bars">
      {runs.map((run) => {
        const at = run.startedAt ? Date.parse(run.startedAt) : from;
        const took = lapse(run.startedAt, run.endedAt);
        return (
          <li key={run.runUuid}>
            <a href={runHref(run)} title={run.runUuid}>
              <bdi>{run.job?.name ?? run.runUuid}</bdi>
            </a>
            <span className="track">
              <i
                data-state={run.state}
                style={{
                  insetInlineStart: `${((at - from) / span) * 100}%`,
                  inlineSize: `${Math.max(0.4, ((took ?? 0) / span) * 100)}%`,
                }}
              />
            </span>
            <small>{duration(took)}</small>
          </li>
        );
      })}
    </ul>
  );
}

function Data({ title, data }: { title: string; data: readonly RunData[] }) {
  return (
    <section className="panel">
      <Heading total={data.length}>{title}</Heading>
      {data.length === 0 && <Nothing>Nothing.</Nothing>}
      <ul className="rows">
        {data.map((one) => (
          <li key={`${one.dataset.namespace} ${one.dataset.name} ${one.version}`}>
            <DatasetLink dataset={one.dataset} />
            <small className="faint">
              <bdi>{one.dataset.namespace}</bdi>
              {one.isImplied && ", by its lineage alone"}
            </small>
            <span className="end">{one.rowCount === null ? "" : `${count(one.rowCount)} rows`}</span>
          </li>
        ))}
      </ul>
      {data.map((one) => (
        <FacetsOf key={`${one.dataset.name} ${one.version}`} one={one} />
      ))}
    </section>
  );
}

function FacetsOf({ one }: { one: RunData }) {
  if (Object.keys(one.facets).length === 0) return null;
  return (
    <details className="more-facets">
      <summary>What the run said of {one.dataset.name.split("/").at(-1)}</summary>
      <FacetList facets={one.facets} />
    </details>
  );
}
