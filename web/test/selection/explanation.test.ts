import { expect, test } from "vitest";
import type { ExplanationStep } from "../../src/api/types";
import { deriveExplanation, explanationFor, impactOf, treeText } from "../../src/selection/explanation";
import { buildLineageIndex } from "../../src/selection/lineageIndex";
import { column, page } from "../sample";

const index = buildLineageIndex(page);
const netRevenue = column("daily_revenue.parquet.net_revenue");

function edges(hop: ExplanationStep): string[] {
  return (hop.upstream ?? []).flatMap((next) => [
    `${hop.label} ${hop.version} ${hop.column} < ${next.label} ${next.version} ${next.column} ${next.type} ${next.cell} ${next.line}`,
    ...edges(next),
  ]);
}

test("the sentence equals the server's", () => {
  expect(deriveExplanation(page, index, netRevenue).sentence).toEqual(page.explanation?.sentence);
});

test("the tree has the same edges as the server's", () => {
  const derived = new Set(edges(deriveExplanation(page, index, netRevenue).tree));
  expect(derived).toEqual(new Set(page.explanation ? edges(page.explanation.tree) : []));
});

test("the server's explanation is preferred", () => {
  expect(explanationFor(page, index, netRevenue)).toBe(page.explanation);
});

test.each([
  ["paid@2.revenue", ["paid · revenue", "orders.csv · price, qty", "5 steps, all exact"]],
  ["orders.csv.price", ["orders.csv · price", "comes from outside this run"]],
  ["net@3.segment", ["net · segment", "customers.csv · country, name, since", "1 inferred"]],
])("the explanation of %s", (name, parts) => {
  const sentence = deriveExplanation(page, index, column(name))
    .sentence.map((part) => part.text)
    .join(" | ");
  for (const part of parts) expect(sentence).toContain(part);
});

test("the impact of a source column is on the written columns", () => {
  expect(impactOf(page, index, column("customers.csv.country"))).toEqual({
    direct: ["daily_revenue.parquet · country"],
    indirect: ["daily_revenue.parquet · day, net_revenue, orders"],
  });
  expect(impactOf(page, index, netRevenue)).toEqual({ direct: [], indirect: [] });
});

test("the text is a nested list with the code of each hop", () => {
  const lines = treeText(page, deriveExplanation(page, index, netRevenue).tree).split("\n");
  expect(lines.slice(0, 2)).toEqual([
    "daily_revenue.parquet · net_revenue",
    '  ← daily v1 · net_revenue  [identity · cell 12, line 1 · daily.to_parquet("daily_revenue.parquet")]',
  ]);
  expect(lines.some((line) => line.includes("joined v1 · status  [filter, indirect · cell 6, line 1"))).toBe(true);
});
