import { useState } from "react";
import type { EventLine, EventList } from "../documents";
import { Loaded, useFetched } from "../parts/Loaded";
import { Ago, Nothing } from "../parts/marks";
import { Tree } from "../parts/Tree";
import { change, type Place } from "../router";
import { count, shownOf } from "../words";
import { Title } from "./Title";

const STREAMS: readonly [string, string][] = [
  ["lineage", "OpenLineage"],
  ["runtime", "Cells"],
  ["dataframe", "DataFrames"],
  ["rejected", "Rejected"],
];
const TYPES = ["", "START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER"];

/** Events as they came, and those that were rejected with the reason. */
export function EventsPage({ place }: { place: Place }) {
  const [limit, setLimit] = useState(50);
  const stream = place.values.get("stream") ?? "lineage";
  const query = new URLSearchParams({ stream, limit: `${limit}` });
  for (const name of ["text", "type", "run"]) query.set(name, place.values.get(name) ?? "");
  const found = useFetched<EventList>(`api/v2/pages/events?${query}`);
  const open = place.values.get("open");
  return (
    <>
      <Title name="Events" />
      <div className="tools">
        <fieldset className="segments">
          <legend className="unseen">Stream</legend>
          {STREAMS.map(([name, words]) => (
            <button
              key={name}
              type="button"
              aria-pressed={stream === name}
              onClick={() => change({ stream: name, open: null, type: null })}
            >
              {words}
            </button>
          ))}
        </fieldset>
        <input
          type="search"
          aria-label="Filter events"
          placeholder="Filter by job or sender"
          defaultValue={place.values.get("text") ?? ""}
          onChange={(event) => change({ text: event.target.value })}
        />
        {stream === "lineage" && (
          <select
            aria-label="Type"
            value={place.values.get("type") ?? ""}
            onChange={(event) => change({ type: event.target.value })}
          >
            {TYPES.map((type) => (
              <option key={type} value={type}>
                {type || "any type"}
              </option>
            ))}
          </select>
        )}
        {place.values.get("run") && (
          <button type="button" className="button" onClick={() => change({ run: null })}>
            of run {place.values.get("run")?.slice(0, 8)} ×
          </button>
        )}
      </div>
      <Loaded of={found}>
        {({ items, total, older }) => (
          <>
            <p className="facts">{shownOf(items.length, total) || `all ${total}`} events</p>
            {items.length === 0 && (
              <Nothing>{stream === "rejected" ? "No event was rejected." : "No event matches."}</Nothing>
            )}
            <ul className="rows events">
              {items.map((line) => (
                <Event key={line.seq} line={line} stream={stream} isOpen={open === `${line.seq}`} />
              ))}
            </ul>
            {older !== null && limit < 500 && (
              <button type="button" className="button" onClick={() => setLimit(Math.min(500, limit * 2))}>
                Show more
              </button>
            )}
          </>
        )}
      </Loaded>
    </>
  );
}

function Event({ line, stream, isOpen }: { line: EventLine; stream: string; isOpen: boolean }) {
  return (
    <li>
      <button
        type="button"
        className="event-line"
        aria-expanded={isOpen}
        onClick={() => change({ open: isOpen ? null : `${line.seq}` })}
      >
        <b data-type={line.type ?? undefined}>{line.type ?? "event"}</b>
        <bdi>{line.job}</bdi>
        <small className="faint">
          <bdi>{line.detail}</bdi>
        </small>
        <Ago at={line.receivedAt} />
      </button>
      {isOpen && <EventBody line={line} stream={stream} />}
    </li>
  );
}

function EventBody({ line, stream }: { line: EventLine; stream: string }) {
  const [isRaw, setRaw] = useState(stream === "rejected");
  const body = useFetched<{ text: string; size: number }>(`api/v2/pages/events/${stream}/${line.seq}`);
  return (
    <div className="event-body">
      <p className="facts">
        <span>position {line.seq}</span>
        <code>{line.eventId}</code>
        {stream === "lineage" && line.run && (
          <button type="button" className="quiet" onClick={() => change({ run: line.run })}>
            all events of this run
          </button>
        )}
        <button type="button" className="quiet" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
          raw
        </button>
      </p>
      <Loaded of={body} isPart>
        {({ text, size }) => (
          <>
            {size > text.length && (
              <p className="aside">
                The first {count(text.length)} of {count(size)} characters.
              </p>
            )}
            {isRaw || parsed(text) === undefined ? (
              <pre className="code-block" tabIndex={0}>
                {text}
              </pre>
            ) : (
              <Tree value={parsed(text)} />
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
