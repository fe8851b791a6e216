import type { AssertionResult, QualityCounts } from "../api/types";
import { formatDate } from "../format";
import { urlFor } from "../router";
import { DatasetLink } from "./badges";
import { DataTable } from "./DataTable";
import { Panel } from "./Panel";
import styles from "./TestResults.module.css";

interface Props {
  results: readonly AssertionResult[];
  /** What the tests have in common: the other column is shown. */
  of: "run" | "dataset";
}

/** Results of data quality tests, failed ones first. */
export function TestResults({ results, of }: Props) {
  if (results.length === 0) return null;
  const hasValues = results.some(({ expected, actual }) => expected !== null || actual !== null);
  const heads = [
    ...["result", "test", "column"],
    ...(hasValues ? ["expected", "actual"] : []),
    of === "run" ? "dataset" : "run",
  ];
  return (
    <Panel title="Data quality tests" total={results.length}>
      <div className={styles.results} data-testid="test-results">
        <DataTable
          heads={heads}
          rows={results.map((result) => [
            <TestResult key="result" success={result.success} />,
            <Test key="test" result={result} />,
            result.column ?? "",
            ...(hasValues ? [result.expected ?? "", result.actual ?? ""] : []),
            of === "run" ? <DatasetLink key="dataset" dataset={result.dataset} /> : <Run key="run" result={result} />,
          ])}
        />
      </div>
    </Panel>
  );
}

export function countTests(results: readonly AssertionResult[]): QualityCounts | null {
  const count = (outcome: boolean) => results.filter(({ success }) => success === outcome).length;
  return results.length === 0 ? null : { failed: count(false), passed: count(true), total: results.length };
}

export function TestResult({ success }: { success: boolean | null }) {
  return (
    <span className={styles.result} data-success={success} data-testid="check-result">
      {success === null ? "? unknown" : success ? "✓ passed" : "✗ failed"}
    </span>
  );
}

function Test({ result }: { result: AssertionResult }) {
  const { assertion, name, severity, description, content, params } = result;
  const details = [name && name !== assertion ? assertion : "", severity ?? "", params ?? ""].filter(Boolean);
  return (
    <>
      <bdi>{name ?? assertion}</bdi>
      {details.length > 0 && <small className={styles.details}>{details.join(" · ")}</small>}
      {description && <small className={styles.details}>{description}</small>}
      {content && <code className={styles.details}>{content}</code>}
    </>
  );
}

function Run({ result: { runUuid, at } }: { result: AssertionResult }) {
  const time = formatDate(at);
  return runUuid === null ? time : <a href={urlFor("job-run", {}, runUuid)}>{time}</a>;
}
