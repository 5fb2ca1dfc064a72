import { expect, it } from "vitest";
import { compileExpression } from "../../src/mapping/jsonata/expression.ts";

it.each<[unknown, unknown, string | undefined]>([
  [{ instance: "web1", severity: "page" }, undefined, "instance=web1, severity=page"],
  [{ job: "node", instance: "web1" }, { job: "node", instance: "web2" }, "instance=web1"],
  [{ job: "node" }, { job: "node" }, undefined],
  [{ a: 0, b: false, c: null, d: "", e: {}, f: [] }, undefined, "a=0, b=false"],
  [{ a: [1, "x"], b: { c: 1 } }, null, 'a=[1,"x"], b={"c":1}'],
  [{ constructor: "x" }, {}, "constructor=x"],
  [{ __alert_rule_uid__: "u1", __name__: "up", _zone: "b", job: "node" }, {}, "_zone=b, job=node"],
  [{ __name__: "up" }, undefined, undefined],
  [{}, undefined, undefined],
  [null, undefined, undefined],
  [undefined, undefined, undefined],
  ["text", undefined, undefined],
  [["a"], undefined, undefined],
])("$formatPairs writes %j without %j as %j", async (object, common, text) => {
  const compiled = compileExpression("$formatPairs(object, common)");
  if (!compiled.ok) throw new Error(compiled.message);
  const scope = { payload: { object, common }, headers: {}, query: {}, path: "p", now: 0 };
  expect(await compiled.expression.evaluate(scope)).toEqual({ ok: true, value: text });
});
