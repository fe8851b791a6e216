import type { ReactNode } from "react";
import { Loaded, useFetched } from "../parts/Loaded";
import { Nothing } from "../parts/marks";
import { href } from "../router";
import { moment, plural } from "../words";

interface FacetVersion {
  facet: unknown;
  firstAt: string;
  lastAt: string;
  firstRunId: string | null;
  lastRunId: string | null;
  events: number;
}

const MOST = 20;

/** What a facet said before: who set it and when, the newest first. */
export function FacetHistory({
  node,
  name,
  body,
}: {
  node: string;
  name: string;
  body: (facet: unknown) => ReactNode;
}) {
  const query = new URLSearchParams({ nodeId: node, name, limit: `${MOST}` });
  const found = useFetched<{ versions: FacetVersion[] }>(`api/v2/facets/history?${query}`);
  return (
    <Loaded of={found} isPart>
      {({ versions }) =>
        versions.length === 0 ? (
          <Nothing>The lake has no event that told of it.</Nothing>
        ) : (
          <ol className="history" aria-label={`History of ${name}`}>
            {versions.map((version) => (
              <li key={version.firstAt}>
                <p className="facts">
                  {span(version)} · said by {plural(version.events, "event")}
                  {version.firstRunId && (
                    <>
                      , first by{" "}
                      <a href={href("job-run", {}, version.firstRunId)}>run {version.firstRunId.slice(0, 8)}</a>
                    </>
                  )}
                </p>
                {version.facet === null ? <Nothing>It was deleted.</Nothing> : body(version.facet)}
              </li>
            ))}
            {versions.length === MOST && <li className="faint">The last {MOST} are shown.</li>}
          </ol>
        )
      }
    </Loaded>
  );
}

function span({ firstAt, lastAt }: FacetVersion): string {
  return firstAt === lastAt ? moment(firstAt) : `${moment(firstAt)} to ${moment(lastAt)}`;
}
