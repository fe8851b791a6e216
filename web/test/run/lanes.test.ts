import { expect, test } from "vitest";
import { itemAt } from "../../src/api/client";
import { columnsByOperation, fitLanes } from "../../src/run/lanes";
import { buildLineageIndex, columnPath } from "../../src/selection/lineageIndex";
import { column, page } from "../sample";

test("a wide window widens the cells only", () => {
  const before = page.lanes.boxes;
  const { boxes, width } = fitLanes(page.lanes, page.lanes.width + 200);
  const written = `state:${page.lanes.writes.items[0]}`;
  expect(width).toBe(page.lanes.width + 200);
  expect(boxes["cell:3"]?.width).toBe((before["cell:3"]?.width ?? 0) + 200);
  expect(boxes["state:0"]).toEqual(before["state:0"]);
  expect(boxes[written]).toEqual({ ...before[written], x: (before[written]?.x ?? 0) + 200 });
});

test("a narrow window changes nothing", () => {
  expect(fitLanes(page.lanes, 300)).toEqual({ boxes: page.lanes.boxes, width: page.lanes.width });
});

test("each operation on a path has its columns", () => {
  const path = columnPath(buildLineageIndex(page), column("daily_revenue.parquet.net_revenue"));
  const direct = [...columnsByOperation(page, path)].map(([i, columns]) => {
    const names = [...columns].filter(([, kind]) => kind === "direct").map(([name]) => name);
    return [itemAt(page.operations, i).code, names] as const;
  });
  expect(new Map(direct).get('paid["price"] * paid["qty"]')).toEqual(["revenue"]);
  expect(new Map(direct).get('paid.merge(refunds, on="order_id", how="left")')).toEqual(["revenue", "amount"]);
});
