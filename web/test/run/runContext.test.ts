import { expect, test } from "vitest";
import { parseRoute, urlFor } from "../../src/router";
import { columnFromParams, columnParams } from "../../src/run/runContext";
import { column, page } from "../sample";

test.each(["daily_revenue.parquet.net_revenue", "net@1.price", "net@3.segment", "orders.csv.qty"])(
  "the URL of %s leads to it",
  (name) => {
    const url = urlFor("run", columnParams(page, column(name)));
    expect(columnFromParams(page, parseRoute(url).params)).toEqual(column(name));
  },
);

test("an unknown column is ignored", () => {
  expect(columnFromParams(page, new URLSearchParams({ dataset: "orders/net", column: "missing" }))).toBeNull();
  expect(columnFromParams(page, new URLSearchParams())).toBeNull();
});

test("an invalid nth is ignored", () => {
  const params = { dataset: "orders/net", version: "1", column: "price" };
  const expected = columnFromParams(page, new URLSearchParams(params));
  expect(expected).not.toBeNull();
  expect(columnFromParams(page, new URLSearchParams({ ...params, nth: "-1" }))).toEqual(expected);
});

test("of two states with the same name and version, the earlier one has a URL", () => {
  const doubled = { ...page, states: [...page.states, ...page.states] };
  const first = column("net@1.price");
  const url = urlFor("run", columnParams(doubled, first));
  expect(columnFromParams(doubled, parseRoute(url).params)).toEqual(first);
});
