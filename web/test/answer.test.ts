import { expect, test } from "vitest";
import { answerFor, derivedAnswer, reachOf, treeText } from "../src/answer";
import { lineageOf } from "../src/lineage";
import type { AnswerHop } from "../src/page";
import { page, port } from "./sample";

const lineage = lineageOf(page);
const asked = port("daily_revenue.parquet.net_revenue");

function edges(hop: AnswerHop): string[] {
  return (hop.upstream ?? []).flatMap((next) => [
    `${hop.label} ${hop.version} ${hop.column} < ${next.label} ${next.version} ${next.column} ${next.type} ${next.cell} ${next.line}`,
    ...edges(next),
  ]);
}

test("the sentence is the one that the server says", () => {
  expect(derivedAnswer(page, lineage, asked).sentence).toEqual(page.answer?.sentence);
});

test("the tree has the edges of the server's", () => {
  const ours = new Set(edges(derivedAnswer(page, lineage, asked).tree));
  expect(ours).toEqual(new Set(page.answer ? edges(page.answer.tree) : []));
});

test("the server's own answer is preferred", () => {
  expect(answerFor(page, lineage, asked)).toBe(page.answer);
});

test.each([
  ["paid@2.revenue", ["paid · revenue", "orders.csv · price, qty", "5 steps, all exact"]],
  ["orders.csv.price", ["orders.csv · price", "comes from outside this run"]],
  ["net@3.segment", ["net · segment", "customers.csv · country, name, since", "1 guessed"]],
])("the answer for %s", (name, words) => {
  const said = derivedAnswer(page, lineage, port(name))
    .sentence.map((part) => part.text)
    .join(" | ");
  for (const word of words) expect(said).toContain(word);
});

test("a source column says where it ends", () => {
  expect(reachOf(page, lineage, port("customers.csv.country"))).toEqual({
    makes: ["daily_revenue.parquet · country"],
    sways: ["daily_revenue.parquet · day, net_revenue, orders"],
  });
  expect(reachOf(page, lineage, asked)).toEqual({ makes: [], sways: [] });
});

test("the text twin is a nested list with the code on each hop", () => {
  const lines = treeText(page, derivedAnswer(page, lineage, asked).tree).split("\n");
  expect(lines.slice(0, 2)).toEqual([
    "daily_revenue.parquet · net_revenue",
    '  ← daily v1 · net_revenue  [as it is · cell 12, line 1 · daily.to_parquet("daily_revenue.parquet")]',
  ]);
  expect(lines.some((line) => line.includes("joined v1 · status  [filter, indirect · cell 6, line 1"))).toBe(true);
});
