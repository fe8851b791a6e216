import { useEffect, useMemo, useState } from "react";
import { AnswerStrip } from "./AnswerStrip";
import { Detail } from "./Detail";
import { FollowContext, useFollow } from "./follow";
import { GraphTab } from "./GraphTab";
import { PageHeader } from "./PageHeader";
import type { RunPage, RunSummary } from "./page";
import { RunTab } from "./RunTab";
import { parseRoute, type Route } from "./route";
import { embeddedPage, fetchRun, fetchRuns, LoadError, type Problem } from "./source";
import { TextTwin } from "./TextTwin";

export function App() {
  const route = useRoute();
  const embedded = useMemo(() => embeddedPage(), []);
  const loaded = useLoaded(embedded, route.session);
  const runs = useRuns(embedded === null);
  const title = loaded.kind === "page" ? `${loaded.page.header.notebook} · clew` : "clew";
  useEffect(() => {
    document.title = title;
  }, [title]);
  return (
    <>
      <PageHeader route={route} runs={runs} shown={loaded.kind === "page" ? loaded.page : null} />
      <main>
        {loaded.kind === "loading" && <Skeleton />}
        {loaded.kind === "problem" && <ProblemNote problem={loaded.problem} />}
        {loaded.kind === "page" && <Page key={loaded.page.header.sessionId} page={loaded.page} route={route} />}
      </main>
    </>
  );
}

function Page({ page, route }: { page: RunPage; route: Route }) {
  const follow = useFollow(page, route);
  return (
    <FollowContext value={follow}>
      <AnswerStrip route={route} />
      {route.asText && <TextTwin />}
      {route.tab === "run" ? <RunTab /> : <GraphTab route={route} />}
      <Detail open={route.open} />
    </FollowContext>
  );
}

function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const route = useMemo(() => parseRoute(hash), [hash]);
  return route;
}

type Loaded = { kind: "loading" } | { kind: "page"; page: RunPage } | { kind: "problem"; problem: Problem };

function useLoaded(embedded: RunPage | null, session: string | null): Loaded {
  const [loaded, setLoaded] = useState<Loaded>(embedded ? { kind: "page", page: embedded } : { kind: "loading" });
  useEffect(() => {
    if (embedded) return;
    const stop = new AbortController();
    setLoaded({ kind: "loading" });
    fetchRun(session, stop.signal).then(
      (page) => setLoaded({ kind: "page", page }),
      (error: unknown) => {
        if (!stop.signal.aborted) setLoaded({ kind: "problem", problem: problemFrom(error) });
      },
    );
    return () => stop.abort();
  }, [embedded, session]);
  return loaded;
}

function problemFrom(error: unknown): Problem {
  if (error instanceof LoadError) return error.problem;
  return { title: "The run could not be read.", detail: error instanceof Error ? error.message : String(error) };
}

function useRuns(isServed: boolean): { runs: RunSummary[]; total: number } {
  const [runs, setRuns] = useState<{ runs: RunSummary[]; total: number }>({ runs: [], total: 0 });
  useEffect(() => {
    if (!isServed) return;
    const stop = new AbortController();
    // Without the list the page still shows its run; what is wrong is said where the run would stand.
    fetchRuns(stop.signal).then(setRuns, () => {});
    return () => stop.abort();
  }, [isServed]);
  return runs;
}

function Skeleton() {
  return (
    <div className="skeleton" role="status" aria-label="Loading the run">
      <i className="strip" />
      <div>
        <i />
        <i className="tall" />
        <i />
      </div>
    </div>
  );
}

function ProblemNote({ problem }: { problem: Problem }) {
  return (
    <section className="problem" role="alert">
      <h1>{problem.title}</h1>
      <p>{problem.detail}</p>
    </section>
  );
}
