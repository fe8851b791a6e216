import { useApi } from "../api/client";
import type { JobView } from "../api/types";
import { AsyncContent } from "../components/AsyncContent";
import { RunDuration, RunLink, StateBadge, TimeAgo } from "../components/badges";
import controls from "../components/controls.module.css";
import layout from "../components/layout.module.css";
import { PageTitle } from "../components/PageTitle";
import { EmptyState, Panel } from "../components/Panel";
import { RunBars } from "../components/RunBars";
import { FacetList } from "../facets/FacetList";
import { formatDate, pluralize } from "../format";
import { lineageUrl, type Route } from "../router";
import { Usages } from "./Usages";

const MAX_LISTED = 15;

export function JobPage({ route }: { route: Route }) {
  const query = new URLSearchParams();
  for (const name of ["namespace", "name"]) query.set(name, route.params.get(name) ?? "");
  const view = useApi<JobView>(`api/v2/pages/job?${query}`);
  return <AsyncContent state={view}>{(value) => <Job view={value} />}</AsyncContent>;
}

function Job({ view }: { view: JobView }) {
  const latest = view.runs[0];
  return (
    <>
      <PageTitle
        kind={view.kind?.toLowerCase() ?? "job"}
        name={view.job.name}
        fullName={view.job}
        facts={[view.integration?.toLowerCase() ?? "", pluralize(view.runTotal, "run")].filter(Boolean)}
        at={view.at}
        badge={latest && <StateBadge state={latest.state} />}
      >
        <a className={controls.button} href={lineageUrl("job", view.job)}>
          Show lineage
        </a>
      </PageTitle>
      {view.description && <p className={layout.prose}>{view.description}</p>}
      <Panel title="Runs" shown={view.runs.length} total={view.runTotal}>
        {view.runs.length === 0 ? <EmptyState>No runs</EmptyState> : <RunBars runs={view.runs} />}
      </Panel>
      <div className={layout.twoColumns}>
        <div>
          <Panel title="Recent runs" shown={Math.min(MAX_LISTED, view.runs.length)} total={view.runTotal}>
            <ul className={layout.rows}>
              {view.runs.slice(0, MAX_LISTED).map((run) => (
                <li key={run.runUuid}>
                  <RunLink run={run}>{formatDate(run.startedAt) || run.runUuid}</RunLink>
                  <small className={layout.bad}>{run.error}</small>
                  <span className={layout.rowEnd}>
                    <StateBadge state={run.state} /> <RunDuration run={run} /> <TimeAgo at={run.startedAt} />
                  </span>
                </li>
              ))}
            </ul>
          </Panel>
          <FacetList facets={view.facets} node={`job:${view.job.namespace}:${view.job.name}`} />
        </div>
        <div>
          <Usages title="Reads" kind="dataset" usages={view.inputs} empty="No known inputs" />
          <Usages title="Writes" kind="dataset" usages={view.outputs} empty="No known outputs" />
        </div>
      </div>
    </>
  );
}
