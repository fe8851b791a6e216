import { useMemo } from "react";
import { embeddedPage } from "./api/client";
import { useLoginRequired } from "./api/login";
import { ProblemMessage } from "./components/AsyncContent";
import { PageHeader } from "./components/PageHeader";
import { useTitle } from "./components/useTitle";
import { DatasetPage } from "./pages/DatasetPage";
import { DiffPage } from "./pages/DiffPage";
import { EventsPage } from "./pages/EventsPage";
import { HealthPage } from "./pages/HealthPage";
import { JobPage } from "./pages/JobPage";
import { LineagePage } from "./pages/LineagePage";
import { DatasetsPage, JobsPage, RunsPage } from "./pages/ListPages";
import { LoginPage } from "./pages/LoginPage";
import { RunDetailPage } from "./pages/RunDetailPage";
import { type Route, useRoute } from "./router";
import { RunPage } from "./run/RunPage";

export function App() {
  const route = useRoute();
  const isLoginRequired = useLoginRequired();
  const embedded = useMemo(() => embeddedPage(), []);
  const isRun = embedded !== null || route.view === "run" || route.view === "graph" || route.view === "time";
  return (
    <>
      <PageHeader view={route.view} isServed={embedded === null} />
      <main id="main" tabIndex={-1}>
        {isLoginRequired ? (
          <LoginPage />
        ) : isRun ? (
          <RunPage route={route} embedded={embedded} />
        ) : (
          <Page route={route} />
        )}
      </main>
    </>
  );
}

function Page({ route }: { route: Route }) {
  useTitle(route.params.get("name") ?? route.id ?? route.view ?? "");
  switch (route.view) {
    case "lineage":
      return <LineagePage route={route} />;
    case "dataset":
      return <DatasetPage route={route} />;
    case "datasets":
      return <DatasetsPage route={route} />;
    case "job":
      return <JobPage route={route} />;
    case "jobs":
      return <JobsPage route={route} />;
    case "job-run":
      return <RunDetailPage route={route} />;
    case "runs":
      return <RunsPage route={route} />;
    case "diff":
      return <DiffPage route={route} />;
    case "events":
      return <EventsPage route={route} />;
    case "health":
      return <HealthPage />;
    default:
      return <ProblemMessage problem={{ title: "Page not found.", detail: "Use the navigation above." }} />;
  }
}
