import { describe, expect, test } from "vitest";
import type { LineageGraph, LineageNode } from "../src/documents";
import { lineageOf, pathOf } from "../src/lineage";
import { lineDiff } from "../src/lineDiff";
import { languageOf, tokens } from "../src/parts/Code";
import { href, nodeId, parsePlace, runHref } from "../src/router";
import { graphText, hopsOf } from "../src/views/LineagePanel";
import { lineageThreads, roomyColumns } from "../src/views/lineageThreads";
import { ago, bytes, lapse } from "../src/words";

describe("a URL", () => {
  test.each([
    ["", "run", null],
    ["#/", "run", null],
    ["#/run/6ac33987", "run", "6ac33987"],
    ["#/job-run/a%2Fb", "job-run", "a/b"],
    ["#/dataset?namespace=file&name=%2Fa%3Fb", "dataset", null],
    ["#/nonsense", null, null],
    ["#/run/%E0%A4%A", "run", "%E0%A4%A"],
  ])("%s names a view", (hash, view, rest) => {
    expect(parsePlace(hash)).toMatchObject({ view, rest });
  });

  test("holds what it was made of, whatever the names", () => {
    const name = "a/b?c=d&e#f 100% 🧵";
    const place = parsePlace(href("dataset", { namespace: name, name, empty: null, open: ["x", "y"] }, name));
    expect(place.rest).toBe(name);
    expect(place.values.get("name")).toBe(name);
    expect(place.values.getAll("open")).toEqual(["x", "y"]);
    expect(place.values.has("empty")).toBe(false);
  });

  test("of a notebook's own run leads to its cells, of an operation to the run", () => {
    const run = { runUuid: "u", sessionId: "s", job: { namespace: "marimo", name: "orders" } };
    expect(runHref(run)).toBe("#/run/s");
    expect(runHref({ ...run, job: { namespace: "marimo", name: "orders/load" } })).toBe("#/job-run/u");
    expect(nodeId("job", { namespace: "a/b", name: "c:d (e)" })).toBe("job/a%2Fb/c%3Ad%20(e)");
  });
});

describe("two texts line by line", () => {
  test.each([
    ["a\nb\nc", "a\nc", [" a", "-b", " c"]],
    ["a", "b", ["-a", "+b"]],
    ["", "", [" "]],
    ["a\nb", "a\nx\nb", [" a", "+x", " b"]],
  ])("%j and %j", (before, after, lines) => {
    expect(lineDiff(before, after).map(({ sign, line }) => sign + line)).toEqual(lines);
  });
});

describe("code in colours", () => {
  test("loses nothing, and knows words from strings and comments", () => {
    const sql = "select 'from' -- where\nfrom t where n > 1.5";
    const found = tokens(sql, "sql");
    expect(found.map((token) => token.text).join("")).toBe(sql);
    expect(found.filter((token) => token.kind).map((token) => [token.kind, token.text])).toEqual([
      ["word", "select"],
      ["string", "'from'"],
      ["comment", "-- where"],
      ["word", "from"],
      ["word", "where"],
      ["number", "1.5"],
    ]);
    expect(tokens('x = "a" # b', "python").map((token) => token.kind)).toEqual([null, "string", null, "comment"]);
    expect([languageOf("PYTHON"), languageOf("Spark SQL"), languageOf("bash")]).toEqual(["python", "sql", "other"]);
  });
});

describe("numbers and times", () => {
  const now = new Date("2026-01-10T12:00:00Z");
  test.each([
    ["2026-01-10T11:59:40Z", "just now"],
    ["2026-01-10T11:55:00Z", "5 min. ago"],
    ["2026-01-09T11:00:00Z", "yesterday"],
  ])("%s is %s", (at, words) => {
    expect(ago(at, now)).toBe(words);
  });

  test("bytes and lapses", () => {
    expect([bytes(12), bytes(1500), bytes(2_500_000)]).toEqual(["12 B", "1.5 KB", "2.5 MB"]);
    expect(lapse("2026-01-10T12:00:00Z", "2026-01-10T12:00:02Z")).toBe(2000);
    expect(lapse(null, "2026-01-10T12:00:02Z")).toBeNull();
  });
});

function node(label: string, x: number, columns: string[], kind: "dataset" | "job" = "dataset"): LineageNode {
  return {
    id: label,
    kind,
    namespace: "wh",
    name: label,
    label,
    box: { x, y: 0, width: 100, height: 80 },
    columns: columns.map((name) => ({ name, type: null })),
    columnTotal: columns.length,
    hiddenUpstream: label === "a" ? 2 : 0,
    hiddenDownstream: 0,
    state: null,
    at: null,
    sessionId: null,
  };
}

const GRAPH: LineageGraph = {
  centre: "b",
  nodes: [node("a", 0, ["x", "y"]), node("job", 150, [], "job"), node("b", 300, ["z", "w"])],
  links: [
    { source: "a", target: "job", states: [] },
    { source: "job", target: "b", states: [] },
  ],
  edges: [
    edge("x", "z", "DIRECT", "TRANSFORMATION", null),
    edge("y", "z", "INDIRECT", "FILTER", null),
    edge("y", "w", "DIRECT", "IDENTITY", "inferred"),
  ],
  groups: [],
  span: { first: null, last: null },
  isCut: false,
  card: { head: 40, row: 20, maxRows: 6 },
};

function edge(from: string, to: string, type: "DIRECT" | "INDIRECT", subtype: string, flag: "inferred" | null) {
  return {
    source: { state: 0, column: from },
    target: { state: 2, column: to },
    type,
    subtype,
    flag,
    job: 1,
    code: ["x * 2"],
  };
}

describe("the lineage graph", () => {
  const lineage = lineageOf(GRAPH);
  const port = { state: 2, column: "z" };

  test("lights a column's way through the job, sway apart from make", () => {
    const columnsOf = (place: number) => GRAPH.nodes[place]?.columns.map((field) => field.name) ?? [];
    const threads = lineageThreads(GRAPH, pathOf(lineage, port), columnsOf);
    expect(threads.map((thread) => [thread.source, thread.target, thread.strength])).toEqual([
      ["a", "job", "direct"],
      ["job", "b", "direct"],
      ["a", "job", "indirect"],
    ]);
    expect(lineageThreads(GRAPH, null, columnsOf).every((thread) => thread.strength === null)).toBe(true);
  });

  test("says its hops, what makes before what sways", () => {
    expect(hopsOf(GRAPH, lineage, port).map(({ edge }) => [edge.source.column, edge.type])).toEqual([
      ["x", "DIRECT"],
      ["y", "INDIRECT"],
    ]);
  });

  test("as text has every node, what is hidden, and the hops with their code", () => {
    const text = graphText(GRAPH, lineage, port);
    expect(text).toContain(
      "b · z\n  ← a · x  [transformation by job | x * 2]\n  ← a · y  [filter, indirect by job | x * 2]",
    );
    expect(text).toContain("dataset wh · b (here)\n  ← job");
    expect(text).toContain("… 2 more upstream");
  });

  test("keeps room for the columns on the path", () => {
    const wide = node(
      "wide",
      0,
      Array.from({ length: 300 }, (_, i) => `c${i}`),
    );
    const path = pathOf(lineageOf({ edges: [] }), { state: 5, column: "c250" });
    expect(roomyColumns(wide, 5, path, 3)).toEqual(["c0", "c1", "c250"]);
    expect(roomyColumns(wide, 5, null, 3)).toEqual(["c0", "c1", "c2"]);
  });
});
