import { describe, expect, test } from "vitest";
import { lineageOf, nearest, pathOf, portKey } from "../src/lineage";
import { names, page, port } from "./sample";

const lineage = lineageOf(page);

function lit(name: string, strength: "direct" | "indirect"): string[] {
  const path = pathOf(lineage, port(name));
  return names([...path.ports].filter(([, how]) => how === strength).map(([key]) => key));
}

describe("a column's path", () => {
  test("goes by exact versions, both ways", () => {
    expect(lit("paid@2.revenue", "direct")).toEqual([
      "daily@1.net_revenue",
      "daily_revenue.parquet.net_revenue",
      "joined@1.price",
      "joined@1.qty",
      "net@1.revenue",
      "net@2.net_revenue",
      "net@2.revenue",
      "net@3.net_revenue",
      "net@3.revenue",
      "orders.csv.price",
      "orders.csv.qty",
      "orders@1.price",
      "orders@1.qty",
      "paid@1.price",
      "paid@1.qty",
      "paid@2.revenue",
    ]);
  });

  test("has what sways it beside, followed to its source but no further", () => {
    expect(lit("paid@2.revenue", "indirect")).toEqual([
      "customers.csv.customer_id",
      "customers@1.customer_id",
      "joined@1.status",
      "net@3.segment",
      "orders.csv.customer_id",
      "orders.csv.status",
      "orders@1.customer_id",
      "orders@1.status",
    ]);
  });

  test("of a filter reaches the whole of what it filters", () => {
    expect(lit("joined@1.status", "indirect")).toContain("paid@1.*");
    expect(lit("joined@1.status", "indirect")).toContain("daily_revenue.parquet.orders");
    expect(lit("joined@1.status", "direct")).toContain("orders.csv.status");
  });

  test("through a function that nobody can look into is no certain one", () => {
    expect(lit("net@3.segment", "direct")).toEqual(["net@3.segment"]);
    expect(lit("net@3.segment", "indirect")).toContain("orders.csv.price");
  });

  test("ends where there are no edges", () => {
    expect(lit("returns.csv.reason", "direct")).toEqual(["returns.csv.reason", "returns@1.reason"]);
  });
});

test.each([
  ["daily_revenue.parquet.net_revenue", "up", "orders.csv", "orders.csv.price"],
  ["orders.csv.qty", "down", "daily_revenue.parquet", "daily_revenue.parquet.net_revenue"],
  ["returns.csv.reason", "down", "daily_revenue.parquet", null],
] as const)("from %s the walk %s to %s ends at %s", (from, way, label, expected) => {
  const found = nearest(lineage, port(from), way, ({ state }) => page.states[state]?.label === label);
  expect(found && names([portKey(found)])[0]).toBe(expected);
});
