import { expect, test } from "vitest";
import { itemAt } from "../../src/api/client";
import { laneEdges, lineageGraphEdges, rowY, runGraphEdges } from "../../src/graph/edgePaths";
import { buildLineageIndex, columnPath } from "../../src/selection/lineageIndex";
import { GRAPH } from "../lineageSample";
import { column, page } from "../sample";

const path = columnPath(buildLineageIndex(page), column("daily_revenue.parquet.net_revenue"));
const columnsOf = (state: number) => itemAt(page.states, state).columns.map((field) => field.name);

test("a hidden column is at the row that counts the hidden ones", () => {
  const box = { x: 0, y: 100, width: 10, height: 10 };
  expect(rowY(box, { head: 50, row: 20, maxRows: 2 }, ["a", "b"], "b")).toBe(100 + 50 + 20 + 10);
  expect(rowY(box, { head: 50, row: 20, maxRows: 2 }, ["a", "b"], "z")).toBe(100 + 50 + 40 + 10);
});

test("in lanes, highlighted edges replace the idle edges between the same boxes", () => {
  const layout = { page, boxes: page.lanes.boxes, columnsOf };
  const edges = laneEdges(layout, path);
  const linksOf = (kind: string | null) =>
    new Set(edges.filter((edge) => edge.kind === kind).map((edge) => `${edge.source}>${edge.target}`));
  const written = `state:${page.lanes.writes.items[0]}`;
  const [direct, idle] = [linksOf("direct"), linksOf(null)];
  expect(direct).toContain("state:0>cell:1");
  expect(direct).toContain(`cell:11>${written}`);
  expect(direct).not.toContain("state:2>cell:2");
  expect([...idle].filter((link) => direct.has(link))).toEqual([]);
  const all = new Set(laneEdges(layout, null).map((edge) => `${edge.source}>${edge.target}`));
  expect([...direct].filter((link) => !all.has(link))).toEqual([]);
});

test("in the graph of a run, edges go through the cells", () => {
  const view = page.graphs.find((graph) => graph.scope === "session");
  if (!view) throw new Error("no graph");
  const edges = runGraphEdges(page, view, path, columnsOf).filter((edge) => edge.kind === "direct");
  expect(edges.length).toBeGreaterThan(10);
  expect(edges.every(({ source, target }) => source.startsWith("cell:") !== target.startsWith("cell:"))).toBe(true);
});

test("in the lineage graph, edges go through the job, direct ones on top", () => {
  const names = (index: number) => GRAPH.nodes[index]?.columns.map((field) => field.name) ?? [];
  const columnZ = columnPath(buildLineageIndex(GRAPH), { state: 2, column: "z" });
  const edges = lineageGraphEdges(GRAPH, columnZ, names);
  expect(edges.map((edge) => [edge.source, edge.target, edge.kind])).toEqual([
    ["a", "job", "indirect"],
    ["a", "job", "direct"],
    ["job", "b", "direct"],
  ]);
  expect(lineageGraphEdges(GRAPH, null, names).every((edge) => edge.kind === null)).toBe(true);
});
