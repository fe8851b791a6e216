import { describe, expect, test } from "vitest";
import {
  buildLineageIndex,
  columnKey,
  columnPath,
  type EdgeKind,
  nearestColumn,
} from "../../src/selection/lineageIndex";
import { column, names, page } from "../sample";

const index = buildLineageIndex(page);

function onPath(name: string, kind: EdgeKind): string[] {
  const path = columnPath(index, column(name));
  return names([...path.columns].filter(([, own]) => own === kind).map(([key]) => key));
}

describe("the path of a column", () => {
  test("follows exact versions in both directions", () => {
    expect(onPath("paid@2.revenue", "direct")).toEqual([
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

  test("follows INDIRECT edges to their source, but not INDIRECT after INDIRECT", () => {
    expect(onPath("paid@2.revenue", "indirect")).toEqual([
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

  test("of a filter column reaches the whole filtered dataset", () => {
    expect(onPath("joined@1.status", "indirect")).toContain("paid@1.*");
    expect(onPath("joined@1.status", "indirect")).toContain("daily_revenue.parquet.orders");
    expect(onPath("joined@1.status", "direct")).toContain("orders.csv.status");
  });

  test("through an opaque function is indirect", () => {
    expect(onPath("net@3.segment", "direct")).toEqual(["net@3.segment"]);
    expect(onPath("net@3.segment", "indirect")).toContain("orders.csv.price");
  });

  test("ends without edges", () => {
    expect(onPath("returns.csv.reason", "direct")).toEqual(["returns.csv.reason", "returns@1.reason"]);
  });
});

test.each([
  ["daily_revenue.parquet.net_revenue", "upstream", "orders.csv", "orders.csv.price"],
  ["orders.csv.qty", "downstream", "daily_revenue.parquet", "daily_revenue.parquet.net_revenue"],
  ["returns.csv.reason", "downstream", "daily_revenue.parquet", null],
] as const)("from %s, the nearest column %s in %s is %s", (from, direction, label, expected) => {
  const nearest = nearestColumn(index, column(from), direction, ({ state }) => page.states[state]?.label === label);
  expect(nearest && names([columnKey(nearest)])[0]).toBe(expected);
});
