/** What was measured and checked of data: figures, assertions, tests. */

import { bytes, count, moment } from "../words";
import { Facts, Grid, type Props, Share } from "./parts";
import { number, record, records, text } from "./values";

export function QualityMetrics({ facet }: Props) {
  const rowCount = number(facet.rowCount);
  const size = number(facet.bytes);
  const columns = Object.entries(record(facet.columnMetrics));
  return (
    <>
      <Facts
        of={[
          ["rows", rowCount === null ? "" : rowCount.toLocaleString("en")],
          ["size", size === null ? "" : bytes(size)],
          ["files", text(facet.fileCount)],
          ["last updated", text(facet.lastUpdated) && moment(text(facet.lastUpdated))],
        ]}
      />
      {columns.length > 0 && (
        <Grid
          heads={["column", "nulls", "distinct", "least", "greatest"]}
          rows={columns.map(([name, said]) => {
            const metrics = record(said);
            const nulls = number(metrics.nullCount);
            const distinct = number(metrics.distinctCount);
            const bar = (value: number | null, tone?: "bad") =>
              value === null ? (
                ""
              ) : rowCount ? (
                <Share value={value} of={rowCount} {...(tone && { tone })} />
              ) : (
                count(value)
              );
            return [name, bar(nulls, "bad"), bar(distinct), text(metrics.min), text(metrics.max)];
          })}
        />
      )}
    </>
  );
}

export function Assertions({ facet }: Props) {
  const all = records(facet.assertions);
  const passed = all.filter((one) => one.success === true).length;
  return (
    <>
      <Share value={passed} of={all.length} tone={passed === all.length ? "good" : "bad"} />
      <Grid
        heads={["assertion", "column", "result"]}
        rows={all.map((one) => [
          text(one.assertion),
          text(one.column),
          <Verdict key="v" isGood={one.success === true} />,
        ])}
      />
    </>
  );
}

function Verdict({ isGood }: { isGood: boolean }) {
  return (
    <span className="verdict" data-good={isGood}>
      {isGood ? "✓ passed" : "✗ failed"}
    </span>
  );
}

export function Tests({ facet }: Props) {
  return (
    <Grid
      heads={["test", "kind", "expected", "actual", "result"]}
      rows={records(facet.tests).map((test) => [
        text(test.name),
        text(test.type),
        text(test.expected),
        text(test.actual),
        <Verdict key="v" isGood={/pass|success|ok/i.test(text(test.status))} />,
      ])}
    />
  );
}

export function Statistics({ facet }: Props) {
  const size = number(facet.size);
  return (
    <Facts
      of={[
        ["rows", number(facet.rowCount)?.toLocaleString("en") ?? ""],
        ["size", size === null ? "" : bytes(size)],
        ["files", text(facet.fileCount)],
      ]}
    />
  );
}
