import { useEffect, useState } from "react";
import { ApiError, type AsyncState, fetchRun, fetchRuns, problemFrom } from "../api/client";
import type { NotebookRunList, RunPage as RunPageDocument } from "../api/types";
import { ProblemMessage, Skeleton } from "../components/AsyncContent";
import { useTitle } from "../components/useTitle";
import { ActivityPage } from "../pages/ActivityPage";
import type { Route } from "../router";
import { ColumnSelectionContext } from "../selection/useColumnSelection";
import { DetailPanel } from "./DetailPanel";
import { ExplanationBar } from "./ExplanationBar";
import { RunGraph } from "./RunGraph";
import { RunHeader } from "./RunHeader";
import { RunLanes } from "./RunLanes";
import { RunTimeline } from "./RunTimeline";
import { RunContext, useRunSelection } from "./runContext";
import { TextView } from "./TextView";

/** The notebook run of the URL, or the latest one; recent activity if there is no notebook run at all. */
export function RunPage({ route, embedded }: { route: Route; embedded: RunPageDocument | null }) {
  const { state, isMissing } = useRunDocument(embedded, route.id);
  const runs = useRuns(embedded === null);
  useTitle(state.kind === "success" ? state.value.header.notebook : "");
  if (isMissing && route.id === null) return <ActivityPage />;
  if (state.kind === "loading") return <Skeleton label="Loading the run" />;
  if (state.kind === "error") return <ProblemMessage problem={state.problem} />;
  const page = state.value;
  return <Run key={page.header.sessionId} page={page} route={route} runs={runs} isServed={embedded === null} />;
}

interface RunProps {
  page: RunPageDocument;
  route: Route;
  runs: NotebookRunList;
  isServed: boolean;
}

function Run({ page, route, runs, isServed }: RunProps) {
  const selection = useRunSelection(page, route);
  return (
    <ColumnSelectionContext value={selection}>
      <RunContext value={selection}>
        <RunHeader page={page} route={route} runs={runs} isServed={isServed} />
        <ExplanationBar isTextShown={route.params.has("text")} />
        {route.params.has("text") && <TextView />}
        {route.view === "graph" ? (
          <RunGraph scope={route.params.get("scope")} />
        ) : route.view === "time" ? (
          <RunTimeline />
        ) : (
          <RunLanes />
        )}
        <DetailPanel open={route.params.get("open")} />
      </RunContext>
    </ColumnSelectionContext>
  );
}

const NOT_FOUND = 404;

function useRunDocument(
  embedded: RunPageDocument | null,
  session: string | null,
): { state: AsyncState<RunPageDocument>; isMissing: boolean } {
  const [state, setState] = useState<AsyncState<RunPageDocument>>(
    embedded ? { kind: "success", value: embedded } : { kind: "loading" },
  );
  const [isMissing, setMissing] = useState(false);
  useEffect(() => {
    if (embedded) return;
    const controller = new AbortController();
    setState({ kind: "loading" });
    setMissing(false);
    fetchRunIfAny(session, controller.signal).then(
      (value) => {
        if (value === null) setMissing(true);
        else setState({ kind: "success", value });
      },
      (error: unknown) => {
        if (controller.signal.aborted) return;
        setMissing(error instanceof ApiError && error.status === NOT_FOUND);
        setState({ kind: "error", problem: problemFrom(error) });
      },
    );
    return () => controller.abort();
  }, [embedded, session]);
  return { state, isMissing };
}

/** Return a run, or the latest one; null if there is none. The list comes first: browsers log a 404 as an error. */
async function fetchRunIfAny(session: string | null, signal: AbortSignal): Promise<RunPageDocument | null> {
  if (session === null && (await fetchRuns(signal)).total === 0) return null;
  return fetchRun(session, signal);
}

function useRuns(isServed: boolean): NotebookRunList {
  const [runs, setRuns] = useState<NotebookRunList>({ runs: [], total: 0 });
  useEffect(() => {
    if (!isServed) return;
    const controller = new AbortController();
    // The page works without the list, and an error is shown for the run itself.
    fetchRuns(controller.signal).then(setRuns, () => {});
    return () => controller.abort();
  }, [isServed]);
  return runs;
}
