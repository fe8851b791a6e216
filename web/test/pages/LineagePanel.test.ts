import { expect, test } from "vitest";
import { graphText, upstreamHops } from "../../src/pages/LineagePanel";
import { buildLineageIndex } from "../../src/selection/lineageIndex";
import { GRAPH } from "../lineageSample";

const index = buildLineageIndex(GRAPH);
const columnZ = { state: 2, column: "z" };

test("upstream hops list DIRECT edges before INDIRECT ones", () => {
  expect(upstreamHops(GRAPH, index, columnZ).map(({ edge }) => [edge.source.column, edge.type])).toEqual([
    ["x", "DIRECT"],
    ["y", "INDIRECT"],
  ]);
});

test("the text has the hops with their code, every node and the hidden neighbours", () => {
  const text = graphText(GRAPH, index, columnZ);
  expect(text).toContain(
    "b · z\n  ← a · x  [transformation by job | x * 2]\n  ← a · y  [filter, indirect by job | x * 2]",
  );
  expect(text).toContain("dataset wh · b (centre)\n  ← job");
  expect(text).toContain("… 2 more upstream");
});
