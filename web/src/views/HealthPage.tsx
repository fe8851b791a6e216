import type { Health } from "../documents";
import { Loaded, useFetched } from "../parts/Loaded";
import { Ago, Heading, Nothing } from "../parts/marks";
import { href } from "../router";
import { bytes, count, duration, plural } from "../words";
import { Title } from "./Title";

/** Whether what is shown is up to date, and what was left out of it. */
export function HealthPage() {
  const health = useFetched<Health>("api/v2/pages/health");
  return (
    <>
      <Title name="Health" />
      <Loaded of={health}>
        {(found) => (
          <>
            <div className="tiles">
              <Tile
                tone={found.log.events ? "warn" : "good"}
                value={found.log.events ? `${found.log.is_estimate ? "about " : ""}${count(found.log.events)}` : "none"}
                words={found.log.events ? `events waiting, ${bytes(found.log.bytes)}` : "waiting: the log is taken in"}
              />
              <Tile
                tone={found.rejected.count ? "bad" : "good"}
                value={found.rejected.count ? count(found.rejected.count) : "none"}
                words="events rejected"
                link={href("events", { stream: "rejected" })}
              />
              <Tile
                tone={found.index?.at ? "good" : "warn"}
                value={found.index?.at ? <Ago at={found.index.at} /> : "never"}
                words="the index was written"
              />
              <Tile
                tone={found.without_facets ? "warn" : "good"}
                value={found.without_facets ? count(found.without_facets) : "all"}
                words={found.without_facets ? "events without facets: run a backfill" : "events have their facets"}
              />
            </div>
            <div className="columns-2">
              <Batches health={found} />
              <Tables health={found} />
            </div>
            {found.rejected.last.length > 0 && (
              <section className="panel">
                <Heading shown={found.rejected.last.length} total={found.rejected.count}>
                  Last rejected
                </Heading>
                <ul className="rows">
                  {found.rejected.last.map((one, i) => (
                    // biome-ignore lint/suspicious/noArrayIndexKey: the newest first, and no other name
                    <li key={i}>
                      <b>{one.reason}</b>
                      <small className="faint">{one.detail}</small>
                      <span className="end">{one.source}</span>
                    </li>
                  ))}
                </ul>
              </section>
            )}
            <p className="aside">
              Home: <code>{found.home}</code>
              {found.streams_bytes > 0 &&
                ` · ${bytes(found.streams_bytes)} of notebook streams that no run has read yet`}
            </p>
          </>
        )}
      </Loaded>
    </>
  );
}

interface TileProps {
  value: React.ReactNode;
  words: string;
  tone: "good" | "warn" | "bad";
  link?: string;
}

function Tile({ value, words, tone, link }: TileProps) {
  const inside = (
    <>
      <b>{value}</b>
      <span>{words}</span>
    </>
  );
  return link ? (
    <a className="tile" data-tone={tone} href={link}>
      {inside}
    </a>
  ) : (
    <div className="tile" data-tone={tone}>
      {inside}
    </div>
  );
}

function Batches({ health }: { health: Health }) {
  return (
    <section className="panel">
      <Heading>Last batches</Heading>
      {health.batches.length === 0 && <Nothing>No batch was taken in yet.</Nothing>}
      <ul className="rows">
        {health.batches.map((batch) => (
          <li key={`${batch.app} ${batch.number}`}>
            <span>
              {plural(
                Object.values(batch.rows).reduce((sum, rows) => sum + rows, 0),
                "event",
              )}
            </span>
            <small className="faint">
              {[
                batch.seconds === null ? "" : `in ${duration(1000 * batch.seconds)}`,
                batch.events_per_second === null ? "" : `${count(Math.round(batch.events_per_second))} a second`,
              ]
                .filter(Boolean)
                .join(", ")}
            </small>
            <span className="end">
              <Ago at={new Date(batch.at_ms).toISOString()} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Tables({ health }: { health: Health }) {
  const largest = Math.max(1, ...health.tables.map((table) => table.bytes));
  return (
    <section className="panel">
      <Heading total={health.tables.length}>Tables of the lake</Heading>
      <table className="grid">
        <thead>
          <tr>
            <th scope="col">table</th>
            <th scope="col">rows</th>
            <th scope="col">files</th>
            <th scope="col">size</th>
          </tr>
        </thead>
        <tbody>
          {health.tables.map((table) => (
            <tr key={table.name}>
              <td>{table.name}</td>
              <td>{count(table.rows)}</td>
              <td>{count(table.files)}</td>
              <td>
                <span className="share">
                  <i style={{ inlineSize: `${(table.bytes / largest) * 100}%` }} />
                  <span>{bytes(table.bytes)}</span>
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
