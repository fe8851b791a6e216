import type { JobView } from "../documents";
import { FacetList } from "../facets/FacetList";
import { Loaded, useFetched } from "../parts/Loaded";
import { Ago, Heading, Nothing, RunLink, StateMark, Took } from "../parts/marks";
import { RunBars } from "../parts/RunBars";
import { lineageHref, type Place } from "../router";
import { moment, plural } from "../words";
import { Touching } from "./DatasetPage";
import { Title } from "./Title";

const LISTED = 15;

export function JobPage({ place }: { place: Place }) {
  const values = new URLSearchParams();
  for (const name of ["namespace", "name"]) values.set(name, place.values.get(name) ?? "");
  const view = useFetched<JobView>(`api/v2/pages/job?${values}`);
  return <Loaded of={view}>{(job) => <Job view={job} />}</Loaded>;
}

function Job({ view }: { view: JobView }) {
  const last = view.runs[0];
  const kind = view.kind?.toLowerCase() ?? "job";
  return (
    <>
      <Title
        kind={kind}
        name={view.job.name}
        whole={view.job}
        facts={[view.integration?.toLowerCase() ?? "", plural(view.runTotal, "run")].filter(Boolean)}
        at={view.at}
        mark={last && <StateMark state={last.state} />}
      >
        <a className="button" href={lineageHref("job", view.job)}>
          Show lineage
        </a>
      </Title>
      {view.description && <p className="prose">{view.description}</p>}
      <section className="panel">
        <Heading shown={view.runs.length} total={view.runTotal}>
          Runs
        </Heading>
        {view.runs.length === 0 && <Nothing>No run of it was seen.</Nothing>}
        {view.runs.length > 0 && <RunBars runs={view.runs} />}
      </section>
      <div className="columns-2">
        <div>
          <section className="panel">
            <Heading shown={Math.min(LISTED, view.runs.length)} total={view.runTotal}>
              Last runs
            </Heading>
            <ul className="rows">
              {view.runs.slice(0, LISTED).map((run) => (
                <li key={run.runUuid}>
                  <RunLink run={run}>{moment(run.startedAt) || run.runUuid}</RunLink>
                  <small className="bad">{run.error}</small>
                  <span className="end">
                    <StateMark state={run.state} /> <Took run={run} /> <Ago at={run.startedAt} />
                  </span>
                </li>
              ))}
            </ul>
          </section>
          <FacetList facets={view.facets} node={`job:${view.job.namespace}:${view.job.name}`} />
        </div>
        <div>
          <Touching title="Reads" kind="dataset" touches={view.inputs} empty="It is not known to read anything." />
          <Touching title="Writes" kind="dataset" touches={view.outputs} empty="It is not known to write anything." />
        </div>
      </div>
    </>
  );
}
