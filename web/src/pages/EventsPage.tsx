import { useState } from "react";
import { useApi } from "../api/client";
import type { EventList, EventListItem, EventText } from "../api/types";
import { AsyncContent } from "../components/AsyncContent";
import { TimeAgo } from "../components/badges";
import code from "../components/Code.module.css";
import controls from "../components/controls.module.css";
import { JsonTree } from "../components/JsonTree";
import { MAX_LISTED, PAGE_SIZE, ShowMore } from "../components/ListControls";
import layout from "../components/layout.module.css";
import { PageTitle } from "../components/PageTitle";
import { EmptyState } from "../components/Panel";
import { countLabel, formatCount } from "../format";
import { type Route, updateQuery } from "../router";
import styles from "./EventsPage.module.css";

const STREAMS: readonly [string, string][] = [
  ["lineage", "OpenLineage"],
  ["runtime", "Cells"],
  ["dataframe", "DataFrames"],
  ["rejected", "Rejected"],
];
const TYPES = ["", "START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER"];

/** Received events, newest first, and rejected ones with the reason. */
export function EventsPage({ route: { params } }: { route: Route }) {
  const [limit, setLimit] = useState(PAGE_SIZE);
  const stream = params.get("stream") ?? "lineage";
  const query = new URLSearchParams({ stream, limit: `${limit}` });
  for (const name of ["text", "type", "run"]) query.set(name, params.get(name) ?? "");
  const events = useApi<EventList>(`api/v2/pages/events?${query}`);
  const open = params.get("open");
  return (
    <>
      <PageTitle name="Events" />
      <div className={controls.toolbar}>
        <fieldset className={controls.segments}>
          <legend className="visually-hidden">Stream</legend>
          {STREAMS.map(([name, label]) => (
            <button
              key={name}
              type="button"
              aria-pressed={stream === name}
              onClick={() => updateQuery({ stream: name, open: null, type: null })}
            >
              {label}
            </button>
          ))}
        </fieldset>
        <input
          type="search"
          aria-label="Filter events"
          placeholder="Filter by job or producer"
          defaultValue={params.get("text") ?? ""}
          onChange={(event) => updateQuery({ text: event.target.value })}
        />
        {stream === "lineage" && (
          <select
            aria-label="Type"
            value={params.get("type") ?? ""}
            onChange={(event) => updateQuery({ type: event.target.value })}
          >
            {TYPES.map((type) => (
              <option key={type} value={type}>
                {type || "any type"}
              </option>
            ))}
          </select>
        )}
        {params.get("run") && (
          <button type="button" className={controls.button} onClick={() => updateQuery({ run: null })}>
            run {params.get("run")?.slice(0, 8)} ×
          </button>
        )}
      </div>
      <AsyncContent state={events}>
        {({ items, total, nextCursor }) => (
          <>
            <p className={layout.facts}>{countLabel(items.length, total) || `all ${total}`} events</p>
            {items.length === 0 && (
              <EmptyState>{stream === "rejected" ? "No rejected events" : "No matching events"}</EmptyState>
            )}
            <ul className={styles.events} aria-label="Events">
              {items.map((event) => (
                <EventRow key={event.seq} event={event} stream={stream} isOpen={open === `${event.seq}`} />
              ))}
            </ul>
            {nextCursor !== null && limit < MAX_LISTED && <ShowMore limit={limit} setLimit={setLimit} />}
          </>
        )}
      </AsyncContent>
    </>
  );
}

interface EventProps {
  event: EventListItem;
  stream: string;
}

function EventRow({ event, stream, isOpen }: EventProps & { isOpen: boolean }) {
  return (
    <li>
      <button
        type="button"
        className={styles.summary}
        aria-expanded={isOpen}
        onClick={() => updateQuery({ open: isOpen ? null : `${event.seq}` })}
      >
        <b data-type={event.type ?? undefined}>{event.type ?? "event"}</b>
        <bdi>{event.job}</bdi>
        <small className={layout.faint}>
          <bdi>{event.detail}</bdi>
        </small>
        <TimeAgo at={event.receivedAt} />
      </button>
      {isOpen && <EventBody event={event} stream={stream} />}
    </li>
  );
}

function EventBody({ event, stream }: EventProps) {
  const [isRaw, setRaw] = useState(stream === "rejected");
  const body = useApi<EventText>(`api/v2/pages/events/${stream}/${event.seq}`);
  return (
    <div className={styles.body} data-testid="event-body">
      <p className={layout.facts}>
        <span>position {event.seq}</span>
        <code>{event.eventId}</code>
        {stream === "lineage" && event.run && (
          <button type="button" className={controls.quiet} onClick={() => updateQuery({ run: event.run })}>
            all events of this run
          </button>
        )}
        <button type="button" className={controls.quiet} aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
          raw
        </button>
      </p>
      <AsyncContent state={body} isInline>
        {({ text, size }) => (
          <>
            {size > text.length && (
              <p className={layout.remark}>
                The first {formatCount(text.length)} of {formatCount(size)} characters
              </p>
            )}
            {isRaw || parseJson(text) === undefined ? (
              <pre className={code.block} tabIndex={0}>
                {text}
              </pre>
            ) : (
              <JsonTree value={parseJson(text)} />
            )}
          </>
        )}
      </AsyncContent>
    </div>
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
