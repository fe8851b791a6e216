import { useApi } from "../api/client";
import type { PipelineStatus } from "../api/types";
import { AsyncContent } from "../components/AsyncContent";
import { TimeAgo } from "../components/badges";
import { Table } from "../components/DataTable";
import layout from "../components/layout.module.css";
import { PageTitle } from "../components/PageTitle";
import { EmptyState, Panel } from "../components/Panel";
import { ShareBar } from "../components/ShareBar";
import { formatBytes, formatCount, formatDuration, pluralize } from "../format";
import { urlFor } from "../router";
import styles from "./HealthPage.module.css";

/** Pipeline lag, rejected events, recent batches, lake tables. */
export function HealthPage() {
  const status = useApi<PipelineStatus>("api/v2/pages/health");
  return (
    <>
      <PageTitle name="Health" />
      <AsyncContent state={status}>{(value) => <HealthContent status={value} />}</AsyncContent>
    </>
  );
}

function HealthContent({ status }: { status: PipelineStatus }) {
  const { log, rejected, index, supervisor, pending_backfill_events: withoutFacets } = status;
  return (
    <>
      <div className={styles.tiles}>
        <Tile
          tone={log.events ? "warn" : "good"}
          value={log.events ? `${log.is_estimate ? "about " : ""}${formatCount(log.events)}` : "up to date"}
          label={log.events ? `events pending, ${formatBytes(log.bytes)}` : "no pending events"}
        />
        <Tile
          tone={rejected.count ? "bad" : "good"}
          value={rejected.count ? formatCount(rejected.count) : "none"}
          label="events rejected"
          link={urlFor("events", { stream: "rejected" })}
        />
        <Tile
          tone={index?.at ? "good" : "warn"}
          value={index?.at ? <TimeAgo at={index.at} /> : "never"}
          label="index updated"
        />
        <Tile
          tone={withoutFacets ? "warn" : "good"}
          value={withoutFacets ? formatCount(withoutFacets) : "all"}
          label={withoutFacets ? "events without facets: run a backfill" : "events have their facets"}
        />
        {supervisor && (
          <Tile
            tone={supervisor.is_running ? (supervisor.restarts ? "warn" : "good") : "bad"}
            value={supervisor.is_running ? "running" : "restarting"}
            label={
              supervisor.last_exit_at
                ? `pipeline: ${pluralize(supervisor.restarts, "restart")}, last exit ${supervisor.last_exit}`
                : "pipeline"
            }
          />
        )}
      </div>
      <div className={layout.twoColumns}>
        <Batches status={status} />
        <Tables status={status} />
      </div>
      {rejected.last.length > 0 && (
        <Panel title="Recently rejected" shown={rejected.last.length} total={rejected.count}>
          <ul className={layout.rows}>
            {rejected.last.map(({ reason, detail, source }, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: rejections have no other key
              <li key={i}>
                <b>{reason}</b>
                <small className={layout.faint}>{detail}</small>
                <span className={layout.rowEnd}>{source}</span>
              </li>
            ))}
          </ul>
        </Panel>
      )}
      <p className={layout.remark}>
        Data directory: <code>{status.home}</code>
        {status.unread_stream_bytes > 0 && ` · ${formatBytes(status.unread_stream_bytes)} of pending notebook streams`}
      </p>
    </>
  );
}

interface TileProps {
  value: React.ReactNode;
  label: string;
  tone: "good" | "warn" | "bad";
  link?: string;
}

function Tile({ value, label, tone, link }: TileProps) {
  const content = (
    <>
      <b>{value}</b>
      <span>{label}</span>
    </>
  );
  return link ? (
    <a className={styles.tile} data-tone={tone} href={link}>
      {content}
    </a>
  ) : (
    <div className={styles.tile} data-tone={tone}>
      {content}
    </div>
  );
}

function Batches({ status }: { status: PipelineStatus }) {
  return (
    <Panel title="Recent batches">
      {status.batches.length === 0 && <EmptyState>No batches yet</EmptyState>}
      <ul className={layout.rows}>
        {status.batches.map(
          ({ app_id: appId, number, rows, seconds, events_per_second: rate, committed_at_ms: committedMs }) => (
            <li key={`${appId} ${number}`}>
              <span>
                {pluralize(
                  Object.values(rows).reduce((sum, count) => sum + count, 0),
                  "event",
                )}
              </span>
              <small className={layout.faint}>
                {[
                  seconds === null ? "" : `in ${formatDuration(1000 * seconds)}`,
                  rate === null ? "" : `${formatCount(Math.round(rate))} events/s`,
                ]
                  .filter(Boolean)
                  .join(", ")}
              </small>
              <span className={layout.rowEnd}>
                <TimeAgo at={new Date(committedMs).toISOString()} />
              </span>
            </li>
          ),
        )}
      </ul>
    </Panel>
  );
}

function Tables({ status }: { status: PipelineStatus }) {
  const largest = Math.max(1, ...status.tables.map((table) => table.bytes));
  return (
    <Panel title="Lake tables" total={status.tables.length}>
      <Table heads={["table", "rows", "files", "size"]}>
        {status.tables.map(({ name, rows, files, bytes }) => (
          <tr key={name}>
            <td>{name}</td>
            <td>{formatCount(rows)}</td>
            <td>{formatCount(files)}</td>
            <td>
              <ShareBar share={bytes / largest}>{formatBytes(bytes)}</ShareBar>
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
