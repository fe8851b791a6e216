import { expect, test } from "vitest";
import { count, duration, folder, memory, moment, shape, shownOf } from "../src/words";
import { page } from "./sample";

test.each([
  [0, "0"],
  [999, "999"],
  [1000, "1 k"],
  [31_407, "31.4 k"],
  [1_204_311, "1.2 M"],
  [250_000_000, "250 M"],
  [7e9, "7 G"],
])("%d is %s", (value, words) => expect(count(value)).toBe(words));

test.each([
  [null, ""],
  [0.2, "< 1 ms"],
  [41.2, "41 ms"],
  [1939.1, "1.9 s"],
  [61_000, "1 min 1 s"],
  [7_260_000, "2 h 1 min"],
])("%d ms is %s", (ms, words) => expect(duration(ms)).toBe(words));

test.each([
  [null, ""],
  [438.95, "439 MB"],
  [2048, "2 GB"],
])("%d MB is %s", (mb, words) => expect(memory(mb)).toBe(words));

test("a shape says what is known", () => {
  const [state] = page.states;
  if (!state) throw new Error("no state");
  expect(shape(state)).toBe("1.2 M × 10");
  expect(shape({ ...state, rowCount: null })).toBe("10 columns");
  expect(shape({ ...state, columns: [] })).toBe("1.2 M rows");
  expect(shape({ ...state, rowCount: null, columns: [] })).toBe("");
  expect(folder(state)).toBe("/data/shop");
  expect(folder({ ...state, namespace: "s3://lake", name: "crm/a.csv", label: "a.csv" })).toBe("s3://lake/crm");
});

test("a moment of today is told apart from others", () => {
  const now = new Date("2026-11-15T20:00:00");
  expect(moment("2026-11-15T14:02:00", now)).toMatch(/^today /);
  expect(moment("2026-11-14T14:02:00", now)).not.toMatch(/^today /);
  expect(moment(null, now)).toBe("");
});

test("what is cut is counted", () => {
  expect(shownOf(12, 340)).toBe("12 of 340");
  expect(shownOf(340, 340)).toBe("");
});
