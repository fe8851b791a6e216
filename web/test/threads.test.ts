import { describe, expect, test } from "vitest";
import { lineageOf, pathOf } from "../src/lineage";
import { at } from "../src/page";
import { litOperations, litThreads, placed, restingThreads, rowY, visibleColumns } from "../src/threads";
import { page, port } from "./sample";

const path = pathOf(lineageOf(page), port("daily_revenue.parquet.net_revenue"));
const columnsOf = (state: number) => visibleColumns(at(page.states, state), state, path, page.lanes.card.maxRows);

test("a wide window widens the cells and nothing else", () => {
  const before = page.lanes.boxes;
  const { boxes, width } = placed(page.lanes, page.lanes.width + 200);
  const written = `state:${page.lanes.writes.items[0]}`;
  expect(width).toBe(page.lanes.width + 200);
  expect(boxes["cell:3"]?.width).toBe((before["cell:3"]?.width ?? 0) + 200);
  expect(boxes["state:0"]).toEqual(before["state:0"]);
  expect(boxes[written]).toEqual({ ...before[written], x: (before[written]?.x ?? 0) + 200 });
});

test("a narrow window squeezes nothing", () => {
  expect(placed(page.lanes, 300)).toEqual({ boxes: page.lanes.boxes, width: page.lanes.width });
});

describe("columns that have room", () => {
  const state = {
    ...at(page.states, 0),
    columns: Array.from({ length: 3000 }, (_, i) => ({ name: `c${i}`, type: null })),
  };
  const far = { ...path, ports: new Map([["0/c2999", "direct" as const]]) };

  test("are those of the path before others, in the schema's order", () => {
    expect(visibleColumns(state, 0, far, 4)).toEqual(["c0", "c1", "c2", "c2999"]);
  });

  test("are all where there are few", () => {
    expect(columnsOf(page.lanes.writes.items[0] ?? 0)).toEqual(["day", "country", "net_revenue", "orders"]);
  });

  test("leave a row for the rest, where hidden columns end", () => {
    const box = { x: 0, y: 100, width: 10, height: 10 };
    expect(rowY(box, { head: 50, row: 20, maxRows: 2 }, ["a", "b"], "b")).toBe(100 + 50 + 20 + 10);
    expect(rowY(box, { head: 50, row: 20, maxRows: 2 }, ["a", "b"], "z")).toBe(100 + 50 + 40 + 10);
  });
});

test("the threads of a path join the boxes it passes", () => {
  const stage = { page, boxes: page.lanes.boxes, columnsOf };
  const lit = litThreads(stage, path);
  const links = new Set(lit.filter((thread) => thread.strength === "direct").map((thread) => thread.link));
  const written = `state:${page.lanes.writes.items[0]}`;
  expect(links).toContain("state:0>cell:1");
  expect(links).toContain(`cell:11>${written}`);
  expect(links).not.toContain("state:2>cell:2");
  expect([...links].every((link) => restingThreads(stage).some((thread) => thread.key === link))).toBe(true);
});

test("each operation on the path tells which columns it made", () => {
  const made = litOperations(page, path);
  const direct = [...made].map(([i, columns]) => {
    const names = [...columns].filter(([, strength]) => strength === "direct").map(([name]) => name);
    return [at(page.operations, i).code, names] as const;
  });
  expect(new Map(direct).get('paid["price"] * paid["qty"]')).toEqual(["revenue"]);
  expect(new Map(direct).get('paid.merge(refunds, on="order_id", how="left")')).toEqual(["revenue", "amount"]);
});
