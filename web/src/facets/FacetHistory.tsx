import type { ReactNode } from "react";
import { useApi } from "../api/client";
import type { FacetHistory as FacetHistoryDocument, FacetVersion } from "../api/types";
import { AsyncContent } from "../components/AsyncContent";
import layout from "../components/layout.module.css";
import { EmptyState } from "../components/Panel";
import { formatDate, pluralize } from "../format";
import { urlFor } from "../router";
import styles from "./facets.module.css";

const MAX_VERSIONS = 20;

interface Props {
  node: string;
  name: string;
  renderBody: (facet: unknown) => ReactNode;
}

/** The versions of a facet, newest first, with their runs. */
export function FacetHistory({ node, name, renderBody }: Props) {
  const query = new URLSearchParams({ nodeId: node, name, limit: `${MAX_VERSIONS}` });
  const history = useApi<FacetHistoryDocument>(`api/v2/facets/history?${query}`);
  return (
    <AsyncContent state={history} isInline>
      {({ versions }) =>
        versions.length === 0 ? (
          <EmptyState>No history</EmptyState>
        ) : (
          <ol className={styles.history} aria-label={`History of ${name}`}>
            {versions.map((version) => (
              <li key={version.firstAt}>
                <p className={layout.facts}>
                  {period(version)} · {pluralize(version.events, "event")}
                  {version.firstRunId && (
                    <>
                      , first in{" "}
                      <a href={urlFor("job-run", {}, version.firstRunId)}>run {version.firstRunId.slice(0, 8)}</a>
                    </>
                  )}
                </p>
                {version.facet === null ? <EmptyState>Deleted</EmptyState> : renderBody(version.facet)}
              </li>
            ))}
            {versions.length === MAX_VERSIONS && (
              <li className={layout.faint}>Showing the last {MAX_VERSIONS} versions</li>
            )}
          </ol>
        )
      }
    </AsyncContent>
  );
}

function period({ firstAt, lastAt }: FacetVersion): string {
  return firstAt === lastAt ? formatDate(firstAt) : `${formatDate(firstAt)} to ${formatDate(lastAt)}`;
}
