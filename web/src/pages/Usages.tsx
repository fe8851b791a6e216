import type { Usage } from "../api/types";
import { DatasetLink, JobLink, StateBadge, TimeAgo } from "../components/badges";
import layout from "../components/layout.module.css";
import { EmptyState, Panel } from "../components/Panel";
import { urlFor } from "../router";

interface Props {
  title: string;
  usages: readonly Usage[];
  empty: string;
  kind: "job" | "dataset";
}

/** The jobs of a dataset, or the datasets of a job, each with its last run. */
export function Usages({ title, usages, empty, kind }: Props) {
  return (
    <Panel title={title} total={usages.length}>
      {usages.length === 0 && <EmptyState>{empty}</EmptyState>}
      <ul className={layout.rows}>
        {usages.map(({ node, state, runUuid, at, isImplied }) => (
          <li key={`${node.namespace} ${node.name}`}>
            {kind === "job" ? <JobLink job={node} /> : <DatasetLink dataset={node} />}
            <small className={layout.faint}>
              <bdi>{node.namespace}</bdi>
              {isImplied && ", from column lineage only"}
            </small>
            <span className={layout.rowEnd}>
              {state && kind === "job" && <StateBadge state={state} />}
              <RunTime at={at} runUuid={runUuid} />
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** A time that links to its run. */
export function RunTime({ at, runUuid }: { at: string | null; runUuid: string | null }) {
  if (runUuid === null) return <TimeAgo at={at} />;
  return (
    <a href={urlFor("job-run", {}, runUuid)}>
      <TimeAgo at={at} />
    </a>
  );
}
