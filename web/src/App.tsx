import { useEffect, useMemo, useState } from "react";
import { AnswerStrip } from "./AnswerStrip";
import { Detail } from "./Detail";
import { FollowContext, useFollow } from "./follow";
import { GraphTab } from "./GraphTab";
import { PageHeader } from "./PageHeader";
import type { RunPage } from "./page";
import { type Loading, ProblemNote, problemFrom, Skeleton } from "./parts/Loaded";
import { RunHead, type Runs } from "./RunHead";
import { RunTab } from "./RunTab";
import { parseRoute, type Route } from "./route";
import { type Place, parsePlace, useHash } from "./router";
import { embeddedPage, fetchRun, fetchRuns, LoadError } from "./source";
import { TextTwin } from "./TextTwin";
import { TimeTab } from "./TimeTab";
import { ActivityPage } from "./views/ActivityPage";
import { DatasetPage } from "./views/DatasetPage";
import { DiffPage } from "./views/DiffPage";
import { EventsPage } from "./views/EventsPage";
import { HealthPage } from "./views/HealthPage";
import { JobPage } from "./views/JobPage";
import { JobRunPage } from "./views/JobRunPage";
import { LineagePage } from "./views/LineagePage";
import { DatasetsPage, JobsPage, RunsPage } from "./views/ListPages";

export function App() {
  const hash = useHash();
  const place = useMemo(() => parsePlace(hash), [hash]);
  const route = useMemo(() => parseRoute(hash), [hash]);
  const embedded = useMemo(() => embeddedPage(), []);
  const isRun = embedded !== null || place.view === "run" || place.view === "graph" || place.view === "time";
  return (
    <>
      <PageHeader view={place.view} isServed={embedded === null} />
      <main id="main" tabIndex={-1}>
        {isRun ? <NotebookRun route={route} embedded={embedded} /> : <View place={place} />}
      </main>
    </>
  );
}

function View({ place }: { place: Place }) {
  const title = place.values.get("name") ?? place.rest ?? place.view ?? "";
  useTitle(title);
  switch (place.view) {
    case "lineage":
      return <LineagePage place={place} />;
    case "dataset":
      return <DatasetPage place={place} />;
    case "datasets":
      return <DatasetsPage place={place} />;
    case "job":
      return <JobPage place={place} />;
    case "jobs":
      return <JobsPage place={place} />;
    case "job-run":
      return <JobRunPage place={place} />;
    case "runs":
      return <RunsPage place={place} />;
    case "diff":
      return <DiffPage place={place} />;
    case "events":
      return <EventsPage place={place} />;
    case "health":
      return <HealthPage />;
    default:
      return (
        <ProblemNote problem={{ title: "There is no such page.", detail: "The header leads to those there are." }} />
      );
  }
}

function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · clew` : "clew";
  }, [title]);
}

/** The run that the URL names, or the last one; and where no notebook ever ran, what happened last. */
function NotebookRun({ route, embedded }: { route: Route; embedded: RunPage | null }) {
  const { loaded, isMissing } = useLoaded(embedded, route.session);
  const runs = useRuns(embedded === null);
  useTitle(loaded.kind === "value" ? loaded.value.header.notebook : "");
  if (isMissing && route.session === null) return <ActivityPage />;
  if (loaded.kind === "loading") return <Skeleton name="Loading the run" />;
  if (loaded.kind === "problem") return <ProblemNote problem={loaded.problem} />;
  const page = loaded.value;
  return <Run key={page.header.sessionId} page={page} route={route} runs={runs} isServed={embedded === null} />;
}

function Run({ page, route, runs, isServed }: { page: RunPage; route: Route; runs: Runs; isServed: boolean }) {
  const follow = useFollow(page, route);
  return (
    <FollowContext value={follow}>
      <RunHead page={page} route={route} runs={runs} isServed={isServed} />
      <AnswerStrip route={route} />
      {route.asText && <TextTwin />}
      {route.tab === "run" && <RunTab />}
      {route.tab === "graph" && <GraphTab route={route} />}
      {route.tab === "time" && <TimeTab />}
      <Detail open={route.open} />
    </FollowContext>
  );
}

const NOT_FOUND = 404;

function useLoaded(embedded: RunPage | null, session: string | null): { loaded: Loading<RunPage>; isMissing: boolean } {
  const [loaded, setLoaded] = useState<Loading<RunPage>>(
    embedded ? { kind: "value", value: embedded } : { kind: "loading" },
  );
  const [isMissing, setMissing] = useState(false);
  useEffect(() => {
    if (embedded) return;
    const stop = new AbortController();
    setLoaded({ kind: "loading" });
    setMissing(false);
    fetchRun(session, stop.signal).then(
      (value) => setLoaded({ kind: "value", value }),
      (error: unknown) => {
        if (stop.signal.aborted) return;
        setMissing(error instanceof LoadError && error.status === NOT_FOUND);
        setLoaded({ kind: "problem", problem: problemFrom(error) });
      },
    );
    return () => stop.abort();
  }, [embedded, session]);
  return { loaded, isMissing };
}

function useRuns(isServed: boolean): Runs {
  const [runs, setRuns] = useState<Runs>({ runs: [], total: 0 });
  useEffect(() => {
    if (!isServed) return;
    const stop = new AbortController();
    // Without the list the page still shows its run; what is wrong is said where the run would stand.
    fetchRuns(stop.signal).then(setRuns, () => {});
    return () => stop.abort();
  }, [isServed]);
  return runs;
}
