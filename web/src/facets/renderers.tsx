/** One renderer for each standard OpenLineage facet, by the facet's name. */

import type { ReactNode } from "react";
import { Code, languageOf } from "../components/Code";
import { DataTable } from "../components/DataTable";
import { ErrorBox } from "../components/ErrorBox";
import { JsonTree } from "../components/JsonTree";
import layout from "../components/layout.module.css";
import { TestResult } from "../components/TestResults";
import { baseName, formatBytes, formatConstant, formatCount, formatDate } from "../format";
import { datasetUrl, jobUrl, urlFor } from "../router";
import styles from "./facets.module.css";
import { Facts, fieldFacts, linkify, type Props, qualifiedName, Share } from "./parts";
import { asList, asNumber, asObject, asObjects, asText, type JsonObject } from "./values";

interface Renderer {
  title: string;
  Body: (props: Props) => ReactNode;
}

function Fields({ facet }: Props) {
  return <Facts items={fieldFacts(facet)} />;
}

function Schema({ facet }: Props) {
  const rows = fieldRows(asObjects(facet.fields), 0);
  return <DataTable heads={["column", "type", "description"]} rows={rows} />;
}

function fieldRows(fields: JsonObject[], depth: number): ReactNode[][] {
  return fields.flatMap((field) => [
    [
      <bdi key="name" style={{ paddingInlineStart: depth * 16 }}>
        {asText(field.name)}
      </bdi>,
      <code key="type">{asText(field.type)}</code>,
      asText(field.description),
    ],
    ...fieldRows(asObjects(field.fields), depth + 1),
  ]);
}

function ColumnLineage({ facet }: Props) {
  const fields = Object.entries(asObject(facet.fields));
  const rows = fields.map(([column, field]) => [
    column,
    <Sources key="sources" inputs={asObjects(asObject(field).inputFields)} />,
  ]);
  const datasetSources = asObjects(facet.dataset);
  return (
    <>
      <DataTable heads={["column", "source columns"]} rows={rows} />
      {datasetSources.length > 0 && (
        <p className={layout.remark}>
          All columns: <Sources inputs={datasetSources} />
        </p>
      )}
    </>
  );
}

function Sources({ inputs }: { inputs: JsonObject[] }) {
  return (
    <ul className={layout.inlineList}>
      {inputs.map((input, i) => {
        const transformations = asObjects(input.transformations);
        const isIndirect = transformations.length > 0 && transformations.every(({ type }) => type === "INDIRECT");
        const labels = transformations.map(({ type, subtype }) => formatConstant(asText(subtype || type)));
        const dataset = { namespace: asText(input.namespace), name: asText(input.name) };
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: the order of inputs is fixed
          <li key={i} data-indirect={isIndirect || undefined}>
            <a href={datasetUrl(dataset)} title={qualifiedName(input)}>
              <bdi>
                {baseName(dataset.name)} · {asText(input.field)}
              </bdi>
            </a>
            {labels.length > 0 && <small>{[...new Set(labels)].join(", ")}</small>}
          </li>
        );
      })}
    </ul>
  );
}

function Sql({ facet }: Props) {
  return (
    <>
      <Code language="sql">{asText(facet.query)}</Code>
      {asText(facet.dialect) && <p className={layout.remark}>dialect: {asText(facet.dialect)}</p>}
    </>
  );
}

function SourceCode({ facet }: Props) {
  return <Code language={languageOf(asText(facet.language))}>{asText(facet.sourceCode)}</Code>;
}

function ErrorMessage({ facet }: Props) {
  return <ErrorBox message={asText(facet.message)} stackTrace={asText(facet.stackTrace)} />;
}

function Ownership({ facet }: Props) {
  return (
    <ul className={styles.chips}>
      {asObjects(facet.owners).map((owner) => (
        <li key={`${asText(owner.name)} ${asText(owner.type)}`}>
          <bdi>{asText(owner.name)}</bdi> {asText(owner.type) && <small>{asText(owner.type).toLowerCase()}</small>}
        </li>
      ))}
    </ul>
  );
}

function Tags({ facet }: Props) {
  return (
    <ul className={styles.chips}>
      {asObjects(facet.tags).map((tag, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: two columns can have the same tag
        <li key={i} title={asText(tag.source)}>
          <bdi>{asText(tag.key)}</bdi>
          {asText(tag.value) && asText(tag.value) !== "true" && <b>{asText(tag.value)}</b>}
          {asText(tag.field) && <small>{asText(tag.field)}</small>}
        </li>
      ))}
    </ul>
  );
}

function NominalTime({ facet }: Props) {
  return (
    <Facts
      items={[
        ["from", formatDate(asText(facet.nominalStartTime) || null)],
        ["to", formatDate(asText(facet.nominalEndTime) || null)],
      ]}
    />
  );
}

function Documentation({ facet }: Props) {
  return <p className={layout.prose}>{asText(facet.description)}</p>;
}

function CodeLocation({ facet }: Props) {
  return (
    <Facts
      items={[
        ["URL", linkify(asText(facet.url))],
        ["repository", asText(facet.url) === asText(facet.repoUrl) ? "" : linkify(asText(facet.repoUrl))],
        ["path", asText(facet.path)],
        ["branch", asText(facet.branch)],
        ["tag", asText(facet.tag)],
        ["version", asText(facet.version)],
        ["pull request", asText(facet.pullRequestNumber)],
        ["type", asText(facet.type)],
      ]}
    />
  );
}

function Parent({ facet }: Props) {
  return (
    <Facts
      items={[
        ["Parent run", <RunOfJob key="p" run={asObject(facet.run)} job={asObject(facet.job)} />],
        [
          "Root run",
          facet.root ? (
            <RunOfJob key="r" run={asObject(asObject(facet.root).run)} job={asObject(asObject(facet.root).job)} />
          ) : (
            ""
          ),
        ],
      ]}
    />
  );
}

function RunOfJob({ run, job }: { run: JsonObject; job: JsonObject }) {
  return (
    <>
      {asText(job.name) && (
        <a href={jobUrl({ namespace: asText(job.namespace), name: asText(job.name) })}>{asText(job.name)}</a>
      )}{" "}
      {asText(run.runId) && (
        <a href={urlFor("job-run", {}, asText(run.runId))} title={asText(run.runId)}>
          run {asText(run.runId).slice(0, 8)}
        </a>
      )}
    </>
  );
}

function Engine({ facet }: Props) {
  const adapter = asText(facet.openlineageAdapterVersion);
  return (
    <p>
      {asText(facet.name)} {asText(facet.version)} {adapter && <small>OpenLineage adapter {adapter}</small>}
    </p>
  );
}

function Lifecycle({ facet }: Props) {
  const previous = asObject(facet.previousIdentifier);
  return (
    <Facts
      items={[
        ["change", asText(facet.lifecycleStateChange)],
        ["previous name", facet.previousIdentifier ? qualifiedName(previous) : ""],
      ]}
    />
  );
}

function Symlinks({ facet }: Props) {
  return (
    <ul className={styles.plain}>
      {asObjects(facet.identifiers).map((item) => (
        <li key={qualifiedName(item)}>
          <a href={datasetUrl({ namespace: asText(item.namespace), name: asText(item.name) })}>
            <bdi>{qualifiedName(item)}</bdi>
          </a>{" "}
          <small>{asText(item.type).toLowerCase()}</small>
        </li>
      ))}
    </ul>
  );
}

function Environment({ facet }: Props) {
  return (
    <DataTable
      heads={["variable", "value"]}
      rows={asObjects(facet.environmentVariables).map((item) => [asText(item.name), asText(item.value)])}
    />
  );
}

function Parameters({ facet }: Props) {
  return (
    <DataTable
      heads={["parameter", "value", "description"]}
      rows={asObjects(facet.parameters).map((item) => [
        asText(item.name) || asText(item.key),
        asText(item.value),
        asText(item.description),
      ])}
    />
  );
}

function ExtractionError({ facet }: Props) {
  const failed = asNumber(facet.failedTasks) ?? 0;
  return (
    <>
      <Share value={failed} total={asNumber(facet.totalTasks) ?? failed} tone="bad" />
      {asObjects(facet.errors).map(({ errorMessage, task, stackTrace }, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the order of errors is fixed
        <ErrorBox key={i} message={asText(errorMessage)} task={asText(task)} stackTrace={asText(stackTrace)} />
      ))}
    </>
  );
}

function Hierarchy({ facet }: Props) {
  return (
    <p>
      {asObjects(facet.hierarchy)
        .map((level) => asText(level.name))
        .join(" › ")}
    </p>
  );
}

function Dependencies({ facet }: Props) {
  const rows = (["upstream", "downstream"] as const).flatMap((direction) =>
    asObjects(facet[direction]).map((item) => [
      direction,
      <RunOfJob key="r" run={asObject(item.run)} job={asObject(item.job)} />,
      asText(item.dependency_type),
    ]),
  );
  return <DataTable heads={["direction", "job", "type"]} rows={rows} />;
}

function Lineage({ facet }: Props) {
  const entries = asList(facet.entries);
  return <JsonTree value={entries.length ? entries : { inputs: facet.inputs, fields: facet.fields }} />;
}

function QualityMetrics({ facet }: Props) {
  const rowCount = asNumber(facet.rowCount);
  const size = asNumber(facet.bytes);
  const columns = Object.entries(asObject(facet.columnMetrics));
  return (
    <>
      <Facts
        items={[
          ["rows", rowCount === null ? "" : rowCount.toLocaleString("en")],
          ["size", size === null ? "" : formatBytes(size)],
          ["files", asText(facet.fileCount)],
          ["last updated", asText(facet.lastUpdated) && formatDate(asText(facet.lastUpdated))],
        ]}
      />
      {columns.length > 0 && <ColumnMetrics columns={columns} rowCount={rowCount} />}
    </>
  );
}

const NUMBERS: readonly [string, (metrics: JsonObject, rowCount: number | null) => string][] = [
  ["min", ({ min }) => asText(min)],
  ["max", ({ max }) => asText(max)],
  ["average", averageOf],
  ["sum", ({ sum }) => asText(sum)],
  ["values", ({ count }) => asText(count)],
  [
    "quantiles",
    ({ quantiles }) =>
      Object.entries(asObject(quantiles))
        .map(([key, value]) => `${key}:\u00a0${asText(value)}`)
        .join("  "),
  ],
];

function ColumnMetrics({ columns, rowCount }: { columns: [string, unknown][]; rowCount: number | null }) {
  const metrics = columns.map(([name, value]) => [name, asObject(value)] as const);
  // Most producers report few metrics.
  const numbers = NUMBERS.filter(([, format]) => metrics.some(([, value]) => format(value, rowCount)));
  const bar = (value: number | null, tone?: "bad") =>
    value === null ? (
      ""
    ) : rowCount ? (
      <Share value={value} total={rowCount} {...(tone && { tone })} />
    ) : (
      formatCount(value)
    );
  return (
    <div className={styles.metrics}>
      <DataTable
        heads={["column", "nulls", "distinct", ...numbers.map(([head]) => head)]}
        rows={metrics.map(([name, value]) => [
          name,
          bar(asNumber(value.nullCount), "bad"),
          value.sampled === true && asNumber(value.distinctCount) !== null ? (
            <>~ {bar(asNumber(value.distinctCount))}</>
          ) : (
            bar(asNumber(value.distinctCount))
          ),
          ...numbers.map(([, format]) => format(value, rowCount)),
        ])}
      />
    </div>
  );
}

/** The average as sent, or the sum divided by the number of values. */
function averageOf(metrics: JsonObject, rowCount: number | null): string {
  const sum = asNumber(metrics.sum);
  const values = asNumber(metrics.count) ?? (rowCount === null ? null : rowCount - (asNumber(metrics.nullCount) ?? 0));
  if (asText(metrics.average) || sum === null || !values) return asText(metrics.average);
  return `${Number((sum / values).toPrecision(6))}`;
}

function Assertions({ facet }: Props) {
  const all = asObjects(facet.assertions);
  const passed = all.filter((item) => item.success === true).length;
  return (
    <>
      <Share value={passed} total={all.length} tone={passed === all.length ? "good" : "bad"} />
      <DataTable
        heads={["assertion", "column", "result"]}
        rows={all.map((item) => [
          asText(item.name) || asText(item.assertion),
          asText(item.column),
          <TestResult key="result" success={typeof item.success === "boolean" ? item.success : null} />,
        ])}
      />
    </>
  );
}

function Tests({ facet }: Props) {
  return (
    <DataTable
      heads={["test", "type", "expected", "actual", "result"]}
      rows={asObjects(facet.tests).map((test) => [
        asText(test.name),
        asText(test.type),
        asText(test.expected),
        asText(test.actual),
        <TestResult key="result" success={/pass|success|ok/i.test(asText(test.status))} />,
      ])}
    />
  );
}

function Statistics({ facet }: Props) {
  const size = asNumber(facet.size);
  return (
    <Facts
      items={[
        ["rows", asNumber(facet.rowCount)?.toLocaleString("en") ?? ""],
        ["size", size === null ? "" : formatBytes(size)],
        ["files", asText(facet.fileCount)],
      ]}
    />
  );
}

export const RENDERERS: Record<string, Renderer> = {
  errorMessage: { title: "Error", Body: ErrorMessage },
  documentation: { title: "Documentation", Body: Documentation },
  ownership: { title: "Owners", Body: Ownership },
  tags: { title: "Tags", Body: Tags },
  sql: { title: "SQL", Body: Sql },
  sourceCode: { title: "Source code", Body: SourceCode },
  sourceCodeLocation: { title: "Source location", Body: CodeLocation },
  schema: { title: "Schema", Body: Schema },
  columnLineage: { title: "Column lineage", Body: ColumnLineage },
  lineage: { title: "Lineage", Body: Lineage },
  dataQualityMetrics: { title: "Data quality", Body: QualityMetrics },
  dataQualityAssertions: { title: "Assertions", Body: Assertions },
  test: { title: "Tests", Body: Tests },
  inputStatistics: { title: "Input statistics", Body: Statistics },
  outputStatistics: { title: "Output statistics", Body: Statistics },
  nominalTime: { title: "Nominal time", Body: NominalTime },
  parent: { title: "Parent run", Body: Parent },
  jobDependencies: { title: "Dependencies", Body: Dependencies },
  processing_engine: { title: "Engine", Body: Engine },
  jobType: { title: "Job type", Body: Fields },
  version: { title: "Version", Body: Fields },
  dataSource: { title: "Data source", Body: Fields },
  datasetType: { title: "Dataset type", Body: Fields },
  storage: { title: "Storage", Body: Fields },
  catalog: { title: "Catalog", Body: Fields },
  hierarchy: { title: "Hierarchy", Body: Hierarchy },
  symlinks: { title: "Aliases", Body: Symlinks },
  lifecycleStateChange: { title: "Lifecycle", Body: Lifecycle },
  environmentVariables: { title: "Environment", Body: Environment },
  executionParameters: { title: "Parameters", Body: Parameters },
  externalQuery: { title: "External query", Body: Fields },
  extractionError: { title: "Extraction errors", Body: ExtractionError },
};
