import { expect, test } from "vitest";
import { formatRoute, parseRoute, portRoute, type Route, routePort } from "../src/route";
import { page, port } from "./sample";

const HOME = parseRoute("");

test.each<[string, Partial<Route>]>([
  ["#/run", {}],
  ["#/graph?scope=hop", { tab: "graph", scope: "hop" }],
  ["#/run/6ac33987", { session: "6ac33987" }],
  ["#/run?open=cell%3A00000009&text=1", { open: "cell:00000009", asText: true }],
  ["#/run?dataset=orders%2Fnet&version=2&column=a+%26+b%3F", { dataset: "orders/net", version: "2", column: "a & b?" }],
  ["#/run/%F0%9F%A7%B5%2F", { session: "🧵/" }],
])("%s is a view, and the view is that URL", (hash, change) => {
  expect(parseRoute(hash)).toEqual({ ...HOME, ...change });
  expect(formatRoute({ ...HOME, ...change })).toBe(hash);
});

test.each(["", "#", "#/", "#/nonsense?scope=x&nth=-1", "#run"])("%s is the run", (hash) => {
  expect(parseRoute(hash)).toEqual(HOME);
});

test.each(["daily_revenue.parquet.net_revenue", "net@1.price", "net@3.segment", "orders.csv.qty"])(
  "%s can be linked to",
  (name) => {
    const route = { ...HOME, ...portRoute(page, port(name)) };
    expect(routePort(page, parseRoute(formatRoute(route)))).toEqual(port(name));
  },
);

test("a column that the run does not have is none", () => {
  expect(routePort(page, { ...HOME, dataset: "orders/net", column: "nothing" })).toBeNull();
});

test("of two states with one name and version, the earlier can be linked to", () => {
  const twice = { ...page, states: [...page.states, ...page.states] };
  const first = port("net@1.price");
  expect(routePort(twice, { ...HOME, ...portRoute(twice, first) })).toEqual(first);
});
