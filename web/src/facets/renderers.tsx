/** One renderer for each standard facet, by the facet's name. */

import type { ReactNode } from "react";
import { Code, languageOf } from "../parts/Code";
import { Tree } from "../parts/Tree";
import { datasetHref, href, jobHref } from "../router";
import { moment } from "../words";
import { Facts, Grid, linked, nameOf, type Props, plainFacts, Share } from "./parts";
import { Assertions, QualityMetrics, Statistics, Tests } from "./quality";
import { list, number, type Record_, record, records, text } from "./values";

interface Renderer {
  title: string;
  Body: (props: Props) => ReactNode;
}

function Plain({ facet }: Props) {
  return <Facts of={plainFacts(facet)} />;
}

function Schema({ facet }: Props) {
  const rows = fieldRows(records(facet.fields), 0);
  return <Grid heads={["column", "type", "description"]} rows={rows} />;
}

function fieldRows(fields: Record_[], depth: number): ReactNode[][] {
  return fields.flatMap((field) => [
    [
      <bdi key="name" style={{ paddingInlineStart: depth * 16 }}>
        {text(field.name)}
      </bdi>,
      <code key="type">{text(field.type)}</code>,
      text(field.description),
    ],
    ...fieldRows(records(field.fields), depth + 1),
  ]);
}

function ColumnLineage({ facet }: Props) {
  const fields = Object.entries(record(facet.fields));
  const rows = fields.map(([column, said]) => [
    column,
    <Sources key="from" inputs={records(record(said).inputFields)} />,
  ]);
  const whole = records(facet.dataset);
  return (
    <>
      <Grid heads={["column", "comes from"]} rows={rows} />
      {whole.length > 0 && (
        <p className="aside">
          All columns: <Sources inputs={whole} />
        </p>
      )}
    </>
  );
}

function Sources({ inputs }: { inputs: Record_[] }) {
  return (
    <ul className="inline">
      {inputs.map((input, i) => {
        const ways = records(input.transformations);
        const isIndirect = ways.length > 0 && ways.every((way) => way.type === "INDIRECT");
        const words = ways.map((way) =>
          text(way.subtype || way.type)
            .toLowerCase()
            .replaceAll("_", " "),
        );
        const dataset = { namespace: text(input.namespace), name: text(input.name) };
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: inputs keep their order
          <li key={i} data-indirect={isIndirect || undefined}>
            <a href={datasetHref(dataset)} title={nameOf(input)}>
              <bdi>
                {dataset.name.split("/").at(-1)} · {text(input.field)}
              </bdi>
            </a>
            {words.length > 0 && <small>{[...new Set(words)].join(", ")}</small>}
          </li>
        );
      })}
    </ul>
  );
}

function Sql({ facet }: Props) {
  return (
    <>
      <Code language="sql">{text(facet.query)}</Code>
      {text(facet.dialect) && <p className="aside">dialect: {text(facet.dialect)}</p>}
    </>
  );
}

function SourceCode({ facet }: Props) {
  return <Code language={languageOf(text(facet.language))}>{text(facet.sourceCode)}</Code>;
}

function ErrorMessage({ facet }: Props) {
  return (
    <div className="failure">
      <b>{text(facet.message)}</b>
      {text(facet.stackTrace) && <pre tabIndex={0}>{text(facet.stackTrace)}</pre>}
    </div>
  );
}

function Ownership({ facet }: Props) {
  return (
    <ul className="chips">
      {records(facet.owners).map((owner) => (
        <li key={`${text(owner.name)} ${text(owner.type)}`}>
          <bdi>{text(owner.name)}</bdi> {text(owner.type) && <small>{text(owner.type).toLowerCase()}</small>}
        </li>
      ))}
    </ul>
  );
}

function Tags({ facet }: Props) {
  return (
    <ul className="chips">
      {records(facet.tags).map((tag, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the same tag may stand on two columns
        <li key={i} title={text(tag.source)}>
          <bdi>{text(tag.key)}</bdi>
          {text(tag.value) && text(tag.value) !== "true" && <b>{text(tag.value)}</b>}
          {text(tag.field) && <small>{text(tag.field)}</small>}
        </li>
      ))}
    </ul>
  );
}

function NominalTime({ facet }: Props) {
  return (
    <Facts
      of={[
        ["from", moment(text(facet.nominalStartTime) || null)],
        ["to", moment(text(facet.nominalEndTime) || null)],
      ]}
    />
  );
}

function Documentation({ facet }: Props) {
  return <p className="prose">{text(facet.description)}</p>;
}

function CodeLocation({ facet }: Props) {
  return (
    <Facts
      of={[
        ["place", linked(text(facet.url))],
        ["repository", text(facet.url) === text(facet.repoUrl) ? "" : linked(text(facet.repoUrl))],
        ["path", text(facet.path)],
        ["branch", text(facet.branch)],
        ["tag", text(facet.tag)],
        ["version", text(facet.version)],
        ["pull request", text(facet.pullRequestNumber)],
        ["kind", text(facet.type)],
      ]}
    />
  );
}

function Parent({ facet }: Props) {
  return (
    <Facts
      of={[
        ["part of", <RunOfJob key="p" run={record(facet.run)} job={record(facet.job)} />],
        [
          "in all",
          facet.root ? (
            <RunOfJob key="r" run={record(record(facet.root).run)} job={record(record(facet.root).job)} />
          ) : (
            ""
          ),
        ],
      ]}
    />
  );
}

function RunOfJob({ run, job }: { run: Record_; job: Record_ }) {
  return (
    <>
      {text(job.name) && (
        <a href={jobHref({ namespace: text(job.namespace), name: text(job.name) })}>{text(job.name)}</a>
      )}{" "}
      {text(run.runId) && (
        <a href={href("job-run", {}, text(run.runId))} title={text(run.runId)}>
          run {text(run.runId).slice(0, 8)}
        </a>
      )}
    </>
  );
}

function Engine({ facet }: Props) {
  const adapter = text(facet.openlineageAdapterVersion);
  return (
    <p>
      {text(facet.name)} {text(facet.version)} {adapter && <small>OpenLineage adapter {adapter}</small>}
    </p>
  );
}

function Lifecycle({ facet }: Props) {
  const before = record(facet.previousIdentifier);
  return (
    <Facts
      of={[
        ["change", text(facet.lifecycleStateChange)],
        ["called before", nameOf(before)],
      ]}
    />
  );
}

function Symlinks({ facet }: Props) {
  return (
    <ul className="plain">
      {records(facet.identifiers).map((one) => (
        <li key={nameOf(one)}>
          <a href={datasetHref({ namespace: text(one.namespace), name: text(one.name) })}>
            <bdi>{nameOf(one)}</bdi>
          </a>{" "}
          <small>{text(one.type).toLowerCase()}</small>
        </li>
      ))}
    </ul>
  );
}

function Environment({ facet }: Props) {
  return (
    <Grid
      heads={["variable", "value"]}
      rows={records(facet.environmentVariables).map((one) => [text(one.name), text(one.value)])}
    />
  );
}

function Parameters({ facet }: Props) {
  return (
    <Grid
      heads={["parameter", "value", "description"]}
      rows={records(facet.parameters).map((one) => [
        text(one.name) || text(one.key),
        text(one.value),
        text(one.description),
      ])}
    />
  );
}

function ExtractionError({ facet }: Props) {
  const failed = number(facet.failedTasks) ?? 0;
  return (
    <>
      <Share value={failed} of={number(facet.totalTasks) ?? failed} tone="bad" />
      {records(facet.errors).map((one, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: errors keep their order
        <div className="failure" key={i}>
          <b>{text(one.errorMessage)}</b>
          {text(one.task) && <code>{text(one.task)}</code>}
          {text(one.stackTrace) && <pre tabIndex={0}>{text(one.stackTrace)}</pre>}
        </div>
      ))}
    </>
  );
}

function Hierarchy({ facet }: Props) {
  return (
    <p>
      {records(facet.hierarchy)
        .map((level) => text(level.name))
        .join(" › ")}
    </p>
  );
}

function Dependencies({ facet }: Props) {
  const rows = (["upstream", "downstream"] as const).flatMap((side) =>
    records(facet[side]).map((one) => [
      side,
      <RunOfJob key="r" run={record(one.run)} job={record(one.job)} />,
      text(one.dependency_type),
    ]),
  );
  return <Grid heads={["side", "job", "kind"]} rows={rows} />;
}

function Lineage({ facet }: Props) {
  const entries = list(facet.entries);
  return <Tree value={entries.length ? entries : { inputs: facet.inputs, fields: facet.fields }} />;
}

export const RENDERERS: Record<string, Renderer> = {
  errorMessage: { title: "Error", Body: ErrorMessage },
  documentation: { title: "Documentation", Body: Documentation },
  ownership: { title: "Owners", Body: Ownership },
  tags: { title: "Tags", Body: Tags },
  sql: { title: "SQL", Body: Sql },
  sourceCode: { title: "Source code", Body: SourceCode },
  sourceCodeLocation: { title: "Where the code is", Body: CodeLocation },
  schema: { title: "Schema", Body: Schema },
  columnLineage: { title: "Column lineage", Body: ColumnLineage },
  lineage: { title: "Lineage", Body: Lineage },
  dataQualityMetrics: { title: "Data quality", Body: QualityMetrics },
  dataQualityAssertions: { title: "Assertions", Body: Assertions },
  test: { title: "Tests", Body: Tests },
  inputStatistics: { title: "Read", Body: Statistics },
  outputStatistics: { title: "Written", Body: Statistics },
  nominalTime: { title: "Nominal time", Body: NominalTime },
  parent: { title: "Parent run", Body: Parent },
  jobDependencies: { title: "Dependencies", Body: Dependencies },
  processing_engine: { title: "Engine", Body: Engine },
  jobType: { title: "Kind of job", Body: Plain },
  version: { title: "Version", Body: Plain },
  dataSource: { title: "Data source", Body: Plain },
  datasetType: { title: "Kind of dataset", Body: Plain },
  storage: { title: "Storage", Body: Plain },
  catalog: { title: "Catalog", Body: Plain },
  hierarchy: { title: "Hierarchy", Body: Hierarchy },
  symlinks: { title: "Other names", Body: Symlinks },
  lifecycleStateChange: { title: "Life cycle", Body: Lifecycle },
  environmentVariables: { title: "Environment", Body: Environment },
  executionParameters: { title: "Parameters", Body: Parameters },
  externalQuery: { title: "External query", Body: Plain },
  extractionError: { title: "Extraction errors", Body: ExtractionError },
};
