import type { Activity, RunLine, Some } from "../documents";
import { Loaded, useFetched } from "../parts/Loaded";
import { Ago, DatasetLink, Heading, Nothing, RunLink, StateMark, Took } from "../parts/marks";
import { href } from "../router";
import { SearchBox } from "../SearchBox";
import { plural } from "../words";

/** The first screen of whoever has no notebook: the search, and what happened last. */
export function ActivityPage() {
  const activity = useFetched<Activity>("api/v2/pages/activity");
  return (
    <Loaded of={activity}>
      {({ counts, runs, failed, datasets }) =>
        counts.runs + counts.datasets + counts.jobs === 0 ? (
          <section className="problem">
            <h1>Nothing was recorded yet.</h1>
            <p>Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`; then reload.</p>
          </section>
        ) : (
          <>
            <div className="welcome">
              <h1>What do you want to trace?</h1>
              <SearchBox isLarge />
              <p className="facts">
                <a href={href("datasets")}>{plural(counts.datasets, "dataset")}</a>
                <a href={href("jobs")}>{plural(counts.jobs, "job")}</a>
                <a href={href("runs")}>{plural(counts.runs, "run")}</a>
              </p>
            </div>
            <div className="columns-2">
              <Runs title="Last runs" runs={runs} empty="No run was seen yet." />
              <div>
                <Runs title="Failed" runs={failed} empty="Nothing failed." />
                <section className="panel">
                  <Heading shown={datasets.items.length} total={datasets.total}>
                    Last touched
                  </Heading>
                  <ul className="rows">
                    {datasets.items.map((line) => (
                      <li key={`${line.dataset.namespace} ${line.dataset.name}`}>
                        <DatasetLink dataset={line.dataset} />
                        <small className="faint">
                          <bdi>{line.dataset.namespace}</bdi>
                        </small>
                        <span className="end">
                          <Ago at={line.at} />
                        </span>
                      </li>
                    ))}
                  </ul>
                </section>
              </div>
            </div>
          </>
        )
      }
    </Loaded>
  );
}

function Runs({ title, runs, empty }: { title: string; runs: Some<RunLine>; empty: string }) {
  return (
    <section className="panel">
      <Heading shown={runs.items.length} total={runs.total}>
        {title}
      </Heading>
      {runs.items.length === 0 && <Nothing>{empty}</Nothing>}
      <ul className="rows">
        {runs.items.map((run) => (
          <li key={run.runUuid}>
            <RunLink run={run} />
            <small className="faint">
              <bdi>{run.job?.namespace}</bdi>
            </small>
            <span className="end">
              <StateMark state={run.state} /> <Took run={run} /> <Ago at={run.startedAt} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
