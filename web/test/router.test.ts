import { expect, test } from "vitest";
import { nodeId, parseRoute, runUrl, urlFor, urlWith } from "../src/router";

test.each([
  ["", "run", null],
  ["#", "run", null],
  ["#/", "run", null],
  ["#run", "run", null],
  ["#/run/6ac33987", "run", "6ac33987"],
  ["#/run/%F0%9F%A7%B5%2F", "run", "🧵/"],
  ["#/job-run/a%2Fb", "job-run", "a/b"],
  ["#/dataset?namespace=file&name=%2Fa%3Fb", "dataset", null],
  ["#/nonsense", null, null],
  ["#/run/%E0%A4%A", "run", "%E0%A4%A"],
])("%s is a route", (hash, view, id) => {
  expect(parseRoute(hash)).toMatchObject({ view, id });
});

test.each([
  ["#/datasets/wh/finance.margin", "dataset", null, { namespace: "wh", name: "finance.margin" }],
  ["#/dataset/postgres%3A%2F%2Fwh%3A5432/a%2Fb", "dataset", null, { namespace: "postgres://wh:5432", name: "a/b" }],
  ["#/datasets/margin", "datasets", null, { text: "margin" }],
  ["#/datasets/file/data/shop/orders.csv", "datasets", null, { text: "orders.csv" }],
  ["#/jobs/airflow/load", "job", null, { namespace: "airflow", name: "load" }],
  ["#/runs/0197", "job-run", "0197", {}],
])("%s, as typed by hand, leads to a page", (hash, view, id, params) => {
  const route = parseRoute(hash);
  expect([route.view, route.id, Object.fromEntries(route.params)]).toEqual([view, id, params]);
});

test("a URL preserves any name", () => {
  const name = "a/b?c=d&e#f 100% 🧵";
  const route = parseRoute(urlFor("dataset", { namespace: name, name, empty: null, open: ["x", "y"] }));
  expect(route.params.get("name")).toBe(name);
  expect(route.params.getAll("open")).toEqual(["x", "y"]);
  expect(route.params.has("empty")).toBe(false);
  expect(parseRoute(urlFor("run", {}, name)).id).toBe(name);
});

test("some parameters are changed and others stay", () => {
  const route = parseRoute("#/run/6ac33987?open=x&open=y&scope=hop");
  expect(urlWith(route, { scope: null, text: "1" })).toBe("#/run/6ac33987?open=x&open=y&text=1");
  expect(urlWith(route, { open: null }, "graph")).toBe("#/graph/6ac33987?scope=hop");
  expect(urlWith(parseRoute(""), { scope: "hop" })).toBe("#/run?scope=hop");
});

test("a notebook run links to its cells, the run of an operation to its own page", () => {
  const run = { runUuid: "u", sessionId: "s", isChild: false };
  expect(runUrl(run)).toBe("#/run/s");
  expect(runUrl({ ...run, isChild: true })).toBe("#/job-run/u");
  expect(nodeId("job", { namespace: "a/b", name: "c:d (e)" })).toBe("job/a%2Fb/c%3Ad%20(e)");
});
