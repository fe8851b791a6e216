import { expect, test } from "vitest";
import { columnsOnPath, visibleColumns } from "../../src/graph/visibleColumns";
import { buildLineageIndex, columnPath } from "../../src/selection/lineageIndex";

const NAMES = Array.from({ length: 3000 }, (_, i) => `c${i}`);

test("columns on the path come before others, in the order of the schema", () => {
  expect(visibleColumns(NAMES, ["c2999"], 4)).toEqual(["c0", "c1", "c2", "c2999"]);
  expect(visibleColumns(NAMES, [], 3)).toEqual(["c0", "c1", "c2"]);
});

test("all columns are visible if there are few", () => {
  expect(visibleColumns(["a", "b"], ["b"], 4)).toEqual(["a", "b"]);
});

test("columns of one dataset on a path", () => {
  const path = columnPath(buildLineageIndex({ edges: [] }), { state: 5, column: "a/b" });
  expect(columnsOnPath(path, 5)).toEqual(["a/b"]);
  expect(columnsOnPath(path, 4)).toEqual([]);
  expect(columnsOnPath(null, 5)).toEqual([]);
});
