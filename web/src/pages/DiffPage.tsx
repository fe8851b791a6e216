import { useApi } from "../api/client";
import type { ChangeKind, RunChange, RunChanges } from "../api/types";
import { AsyncContent } from "../components/AsyncContent";
import code from "../components/Code.module.css";
import controls from "../components/controls.module.css";
import layout from "../components/layout.module.css";
import { PageTitle } from "../components/PageTitle";
import { EmptyState, Panel } from "../components/Panel";
import { formatCount, formatDate, formatDuration, pluralize } from "../format";
import { type Route, urlFor } from "../router";
import styles from "./DiffPage.module.css";
import { type DiffLine, lineDiff } from "./lineDiff";

const GROUPS: readonly [string, readonly ChangeKind[]][] = [
  ["Outcome", ["failed", "recovered"]],
  ["Rows", ["rows"]],
  ["Columns", ["columns", "types"]],
  ["Added and removed", ["added", "removed"]],
  ["Column lineage", ["lineage"]],
  ["Code", ["code"]],
  ["Duration", ["slower", "faster"]],
];

/** The differences between two runs. */
export function DiffPage({ route }: { route: Route }) {
  const [before, after] = [route.params.get("before") ?? "", route.params.get("after") ?? ""];
  const diff = useApi<RunChanges>(`api/v2/pages/diff?${new URLSearchParams({ before, after })}`);
  return (
    <AsyncContent state={diff}>
      {({ name, beforeAt, afterAt, changes }) => (
        <>
          <PageTitle
            kind="diff"
            name={name}
            facts={[`${formatDate(beforeAt)} → ${formatDate(afterAt)}`, pluralize(changes.length, "difference")]}
          >
            <a className={controls.button} href={urlFor("diff", { before: after, after: before })}>
              Swap
            </a>
          </PageTitle>
          {changes.length === 0 && <EmptyState>No differences in code, datasets, columns or rows</EmptyState>}
          {GROUPS.map(([title, kinds]) => (
            <ChangeGroup key={title} title={title} changes={changes.filter(({ kind }) => kinds.includes(kind))} />
          ))}
        </>
      )}
    </AsyncContent>
  );
}

function ChangeGroup({ title, changes }: { title: string; changes: readonly RunChange[] }) {
  if (changes.length === 0) return null;
  return (
    <Panel title={title} total={changes.length}>
      <ul className={`${layout.rows} ${styles.changes}`} data-testid="changes">
        {changes.map((change) => (
          <li key={`${change.kind} ${change.label}`} data-kind={change.kind}>
            <b>
              <bdi>{change.label}</bdi>
            </b>
            <span>{changeLabel(change)}</span>
            {change.kind === "code" && <CodeDiff lines={codeLines(change)} />}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** A change in a few words: "1.4 k → 1.1 k rows, −25 %". */
export function changeLabel(change: RunChange): string {
  const { kind, before, after, added, removed } = change;
  switch (kind) {
    case "failed":
      return "now failing";
    case "recovered":
      return "fixed";
    case "rows":
      return `${formatCount(before ?? 0)} → ${formatCount(after ?? 0)} rows${percentChange(before, after)}`;
    case "columns":
    case "lineage":
      return [added.length && `+ ${added.join(", ")}`, removed.length && `− ${removed.join(", ")}`]
        .filter(Boolean)
        .join("; ");
    case "types":
      return added.join(", ");
    case "code":
      return "code changed";
    case "slower":
    case "faster":
      return `${formatDuration(before)} → ${formatDuration(after)}`;
    case "added":
    case "removed":
      return kind;
  }
}

function percentChange(before: number | null, after: number | null): string {
  if (!before || after === null) return "";
  const percent = (100 * (after - before)) / before;
  return `, ${percent > 0 ? "+" : "−"}${Math.abs(percent).toFixed(Math.abs(percent) < 10 ? 1 : 0)} %`;
}

/** The diff of two texts, or the lines of a unified diff without its header. */
function codeLines({ diff, textBefore, textAfter }: RunChange): DiffLine[] {
  if (diff === null) return lineDiff(textBefore ?? "", textAfter ?? "");
  const lines = diff.split("\n").filter((line) => !/^(---|\+\+\+|@@)/.test(line));
  return lines.map((line) => ({ sign: line[0] === "+" || line[0] === "-" ? line[0] : " ", line: line.slice(1) }));
}

function CodeDiff({ lines }: { lines: readonly DiffLine[] }) {
  return (
    <pre className={`${code.block} ${styles.diff}`} tabIndex={0} data-testid="code-diff">
      {lines.map(({ sign, line }, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other key
        <div key={i} data-sign={sign}>
          <span aria-hidden="true">{sign} </span>
          {sign !== " " && <span className="visually-hidden">{sign === "+" ? "added: " : "removed: "}</span>}
          {line}
        </div>
      ))}
    </pre>
  );
}
