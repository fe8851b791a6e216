import { expect, test } from "vitest";
import {
  baseName,
  countLabel,
  elapsedMs,
  folderOf,
  formatBytes,
  formatConstant,
  formatCount,
  formatDate,
  formatDuration,
  formatMemory,
  formatShape,
  nodeLabel,
  timeAgo,
} from "../src/format";
import { page } from "./sample";

test.each([
  [0, "0"],
  [999, "999"],
  [1000, "1 k"],
  [31_407, "31.4 k"],
  [1_204_311, "1.2 M"],
  [250_000_000, "250 M"],
  [7e9, "7 G"],
])("%d is %s", (value, text) => expect(formatCount(value)).toBe(text));

test.each([
  [null, ""],
  [0.2, "< 1 ms"],
  [41.2, "41 ms"],
  [1939.1, "1.9 s"],
  [61_000, "1 min 1 s"],
  [7_260_000, "2 h 1 min"],
])("%d ms is %s", (ms, text) => expect(formatDuration(ms)).toBe(text));

test.each([
  [null, ""],
  [438.95, "439 MB"],
  [2048, "2 GB"],
])("%d MB is %s", (mb, text) => expect(formatMemory(mb)).toBe(text));

test("a shape has the known dimensions", () => {
  const [state] = page.states;
  if (!state) throw new Error("no state");
  expect(formatShape(state)).toBe("1.2 M × 10");
  expect(formatShape({ ...state, rowCount: null })).toBe("10 columns");
  expect(formatShape({ ...state, columns: [] })).toBe("1.2 M rows");
  expect(formatShape({ ...state, rowCount: null, columns: [] })).toBe("");
  expect(folderOf(state)).toBe("/data/shop");
  expect(folderOf({ ...state, namespace: "s3://lake", name: "crm/a.csv", label: "a.csv" })).toBe("s3://lake/crm");
});

test("a date of today has no date part", () => {
  const now = new Date("2026-11-15T20:00:00");
  expect(formatDate("2026-11-15T14:02:00", now)).toMatch(/^today /);
  expect(formatDate("2026-11-14T14:02:00", now)).not.toMatch(/^today /);
  expect(formatDate(null, now)).toBe("");
});

test("a cut list has a count label", () => {
  expect(countLabel(12, 340)).toBe("12 of 340");
  expect(countLabel(340, 340)).toBe("");
});

const NOW = new Date("2026-01-10T12:00:00Z");

test.each([
  ["2026-01-10T11:59:40Z", "just now"],
  ["2026-01-10T11:55:00Z", "5 min. ago"],
  ["2026-01-09T11:00:00Z", "yesterday"],
])("%s is %s", (at, text) => {
  expect(timeAgo(at, NOW)).toBe(text);
});

test("bytes, elapsed times, constants and base names", () => {
  expect([formatBytes(12), formatBytes(1500), formatBytes(2_500_000)]).toEqual(["12 B", "1.5 KB", "2.5 MB"]);
  expect(elapsedMs("2026-01-10T12:00:00Z", "2026-01-10T12:00:02Z")).toBe(2000);
  expect(elapsedMs(null, "2026-01-10T12:00:02Z")).toBeNull();
  expect(formatConstant("GROUP_BY")).toBe("group by");
  expect([baseName("/data/orders.csv"), baseName("crm/"), baseName("/")]).toEqual(["orders.csv", "crm", "/"]);
});

test.each([
  [{ namespace: "shop", name: "orders" }, "shop · orders"],
  [{ namespace: "", name: "orders" }, "orders"],
  [{ namespace: "shop", name: "" }, "shop"],
  [{ namespace: "", name: "" }, "unnamed"],
])("the label of %o is %s", (node, expected) => {
  expect(nodeLabel(node)).toBe(expected);
});
