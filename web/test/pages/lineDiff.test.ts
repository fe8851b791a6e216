import { expect, test } from "vitest";
import { lineDiff } from "../../src/pages/lineDiff";

test.each([
  ["a\nb\nc", "a\nc", [" a", "-b", " c"]],
  ["a", "b", ["-a", "+b"]],
  ["", "", [" "]],
  ["a\nb", "a\nx\nb", [" a", "+x", " b"]],
])("%j and %j", (before, after, lines) => {
  expect(lineDiff(before, after).map(({ sign, line }) => sign + line)).toEqual(lines);
});
