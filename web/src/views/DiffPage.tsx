import type { Change, ChangeKind, RunChanges } from "../documents";
import { type DiffLine, lineDiff } from "../lineDiff";
import { Loaded, useFetched } from "../parts/Loaded";
import { Heading, Nothing } from "../parts/marks";
import { href, type Place } from "../router";
import { count, duration, moment } from "../words";
import { Title } from "./Title";

const GROUPS: readonly [string, readonly ChangeKind[]][] = [
  ["Outcome", ["failed", "mended"]],
  ["Rows", ["rows"]],
  ["Columns", ["columns", "types"]],
  ["New and gone", ["added", "removed"]],
  ["Column lineage", ["lineage"]],
  ["Code", ["code"]],
  ["Time", ["slower", "faster"]],
];

/** What is different between two runs. */
export function DiffPage({ place }: { place: Place }) {
  const [before, after] = [place.values.get("before") ?? "", place.values.get("after") ?? ""];
  const found = useFetched<RunChanges>(`api/v2/pages/diff?${new URLSearchParams({ before, after })}`);
  return (
    <Loaded of={found}>
      {(diff) => (
        <>
          <Title
            kind="difference"
            name={diff.name}
            facts={[`${moment(diff.beforeAt)} → ${moment(diff.afterAt)}`, `${diff.changes.length} differences`]}
          >
            <a className="button" href={href("diff", { before: after, after: before })}>
              The other way round
            </a>
          </Title>
          {diff.changes.length === 0 && (
            <Nothing>The two runs read, made and wrote the same, by the same code.</Nothing>
          )}
          {GROUPS.map(([title, kinds]) => {
            const changes = diff.changes.filter((change) => kinds.includes(change.kind));
            if (changes.length === 0) return null;
            return (
              <section className="panel" key={title}>
                <Heading total={changes.length}>{title}</Heading>
                <ul className="rows changes">
                  {changes.map((change) => (
                    <ChangeRow key={`${change.kind} ${change.label}`} change={change} />
                  ))}
                </ul>
              </section>
            );
          })}
        </>
      )}
    </Loaded>
  );
}

function ChangeRow({ change }: { change: Change }) {
  return (
    <li data-kind={change.kind}>
      <b>
        <bdi>{change.label}</bdi>
      </b>
      <span>{changeWords(change)}</span>
      {change.kind === "code" && <CodeDiff lines={codeLines(change)} />}
    </li>
  );
}

/** A difference in a few words: "−25 % rows". */
export function changeWords(change: Change): string {
  const { kind, before, after, added, removed } = change;
  switch (kind) {
    case "failed":
      return "fails now";
    case "mended":
      return "no longer fails";
    case "rows":
      return `${count(before ?? 0)} → ${count(after ?? 0)} rows${percent(before, after)}`;
    case "columns":
    case "lineage":
      return [added.length && `+ ${added.join(", ")}`, removed.length && `− ${removed.join(", ")}`]
        .filter(Boolean)
        .join("; ");
    case "types":
      return added.join(", ");
    case "code":
      return "other code";
    case "slower":
    case "faster":
      return `${duration(before)} → ${duration(after)}`;
    case "added":
      return "new";
    case "removed":
      return "gone";
  }
}

function percent(before: number | null, after: number | null): string {
  if (!before || after === null) return "";
  const share = (100 * (after - before)) / before;
  return `, ${share > 0 ? "+" : "−"}${Math.abs(share).toFixed(Math.abs(share) < 10 ? 1 : 0)} %`;
}

/** The lines of both texts, or those of a unified diff without its head. */
function codeLines({ diff, textBefore, textAfter }: Change): DiffLine[] {
  if (diff === null) return lineDiff(textBefore ?? "", textAfter ?? "");
  const lines = diff.split("\n").filter((line) => !/^(---|\+\+\+|@@)/.test(line));
  return lines.map((line) => ({ sign: line[0] === "+" || line[0] === "-" ? line[0] : " ", line: line.slice(1) }));
}

function CodeDiff({ lines }: { lines: readonly DiffLine[] }) {
  return (
    <pre className="code-block diff" tabIndex={0}>
      {lines.map(({ sign, line }, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name
        <div key={i} data-sign={sign}>
          <span aria-hidden="true">{sign} </span>
          {sign !== " " && <span className="unseen">{sign === "+" ? "added: " : "removed: "}</span>}
          {line}
        </div>
      ))}
    </pre>
  );
}
