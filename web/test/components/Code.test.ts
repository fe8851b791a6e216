import { expect, test } from "vitest";
import { languageOf, tokenize } from "../../src/components/Code";

test("tokens preserve the text and distinguish keywords, strings, numbers and comments", () => {
  const sql = "select 'from' -- where\nfrom t where n > 1.5";
  const tokens = tokenize(sql, "sql");
  expect(tokens.map((token) => token.text).join("")).toBe(sql);
  expect(tokens.filter((token) => token.kind).map((token) => [token.kind, token.text])).toEqual([
    ["keyword", "select"],
    ["string", "'from'"],
    ["comment", "-- where"],
    ["keyword", "from"],
    ["keyword", "where"],
    ["number", "1.5"],
  ]);
  expect(tokenize('x = "a" # b', "python").map((token) => token.kind)).toEqual([null, "string", null, "comment"]);
});

test("the language is found in its name", () => {
  expect([languageOf("PYTHON"), languageOf("Spark SQL"), languageOf("bash")]).toEqual(["python", "sql", "other"]);
});
