import { readFileSync } from "node:fs";
import { join } from "node:path";
import JSON5 from "json5";
import { describe, expect, it } from "vitest";
import { plainText } from "../../src/core/text.ts";
import { createWorld } from "../e2e/world.ts";
import { compile, input } from "./world.ts";

const mapping = (lines: string[], more: object = {}) => ({
  match: { path: "p" },
  messageTemplate: lines,
  ...more,
});

/** The draft of the first action that a message of the given lines makes of a payload. */
async function draft(lines: string[], payload: object, more: object = {}) {
  const { set, issues } = await compile({ mappings: [mapping(lines, more)] });
  expect(issues).toEqual([]);
  const outcome = await set.run(input("p", payload));
  if (outcome.kind !== "actions" || !outcome.results[0]?.ok)
    throw new Error(JSON.stringify(outcome));
  return outcome.results[0].draft;
}

describe("a message of several lines", () => {
  it.each<[string[], object, string]>([
    [
      ["Order {{id}}", "Note: {{note}}", "End."],
      { id: 7, note: "ring" },
      "Order 7\nNote: ring\nEnd.",
    ],
    [["Order {{id}}", "Note: {{note}}", "End."], { id: 7 }, "Order 7\nEnd."],
    [["Order {{id}}", "Note: {{note}}", "End."], { id: 7, note: null }, "Order 7\nEnd."],
    [["Order {{id}}", "Note: {{note}}", "End."], { id: 7, note: "  " }, "Order 7\nEnd."],
    [["Order {{id}}", "Tags: {{tags}}"], { id: 7, tags: [] }, "Order 7"],
    [["Count: {{n}}", "Paid: {{paid}}"], { n: 0, paid: false }, "Count: 0\nPaid: false"],
    [["{{a}} and {{b}}"], { b: 1 }, " and 1"],
    [["{{a}}", "{{b ? 'B ' & b : ''}}", "{{$uppercase(c)}}"], { c: "x" }, "X"],
    [["A", "", "{{body}}", "", "B"], { body: "x" }, "A\n\nx\n\nB"],
    [["A", "", "{{body}}", "", "B"], {}, "A\n\nB"],
    [["A", "", "", " ", "B"], {}, "A\n\nB"],
    [["", "{{a}}", "", "B", "", "{{c}}", ""], {}, "B"],
    [["A", "{{body}}"], { body: "\n\nx\n\n\ny\n" }, "A\n\n\nx\n\n\ny\n"],
  ])("%j of %j is %j", async (lines, payload, text) => {
    expect(plainText((await draft(lines, payload)).content)).toBe(text);
  });

  it("has the line breaks between its lines outside the boundary, and the values inside", async () => {
    expect(
      (await draft(["{{a}}", "{{b}}", "", "By {{c}}"], { a: "x\ny", b: "z", c: "Ann" })).content,
    ).toEqual([
      { text: "x\ny", outside: true },
      { text: "\n", outside: false },
      { text: "z", outside: true },
      { text: "\n\nBy ", outside: false },
      { text: "Ann", outside: true },
    ]);
  });

  it("misses nothing in a line that is left out, unless the mapping is strict", async () => {
    const lines = ["{{a}} {{b}}", "C: {{c}}"];
    expect((await draft(lines, { a: 1 })).missing).toEqual(["b"]);
    const { set } = await compile({ mappings: [mapping(["{{a}}", "C: {{c}}"], { strict: true })] });
    expect(await set.run(input("p", { a: 1 }))).toMatchObject({ kind: "rejected", missing: ["c"] });
    expect(await set.run(input("p", { a: 1, c: 2 }))).toMatchObject({ kind: "actions" });
  });

  it("fails if all of its lines are left out, and names the expression that fails", async () => {
    const { set } = await compile({ mappings: [mapping(["{{a}}", "{{$number(b)}}"])] });
    expect(await set.run(input("p", {}))).toMatchObject({
      kind: "actions",
      results: [{ ok: false, failure: { code: "mapping_incomplete" } }],
    });
    expect(await set.run(input("p", { b: "x" }))).toMatchObject({
      kind: "failed",
      failure: { message: expect.stringContaining("{{ $number(b) }}") },
    });
  });

  it("is checked line by line when the config is loaded", async () => {
    const { issues } = await compile({
      mappings: [
        mapping(["ok", "{{ x", "{{ $foo(x) }}"]),
        { match: { path: "q" }, action: "wake", textTemplate: ["{{"] },
      ],
    });
    expect(issues).toMatchObject([
      {
        path: "hooks.mappings[0].messageTemplate[1]",
        message: expect.stringContaining("has no }}"),
      },
      {
        path: "hooks.mappings[0].messageTemplate[2]",
        message: expect.stringContaining("no function $foo"),
      },
      { path: "hooks.mappings[1].textTemplate[0]", message: expect.stringContaining("has no }}") },
    ]);
    await expect(compile({ mappings: [mapping([])] })).rejects.toThrow();
  });

  it("keeps the headers that it names for events that are kept", async () => {
    const { set } = await compile({ mappings: [mapping(["{{a}}", "{{headers.`x-env`}}"])] });
    expect(set.mappings).toMatchObject([{ headers: ["x-env"] }]);
  });

  it("makes one run for each item, and one text of the events that were collected", async () => {
    const lines = ["{{item.title}}", "By {{item.author}}"];
    const { set } = await compile({ mappings: [mapping(lines, { forEach: "items" })] });
    const outcome = await set.run(
      input("p", { items: [{ title: "one", author: "Ann" }, { title: "two" }] }),
    );
    const texts =
      outcome.kind === "actions"
        ? outcome.results.map((result) => result.ok && plainText(result.draft.content))
        : [];
    expect(texts).toEqual(["one\nBy Ann", "two"]);
    const collected = await draft(
      ["{{count}} events", "{{events.note}}"],
      { a: 1 },
      { coalesce: { key: "{{a}}", windowSeconds: 5 } },
    );
    expect([plainText(collected.content), collected.batch?.key]).toEqual(["1 events", "1"]);
  });
});

it("lines in templates: they reach the run and the wake over HTTP, as docs/mappings.md shows", async () => {
  const page = readFileSync(join(import.meta.dirname, "../../docs/mappings.md"), "utf8");
  const example =
    [...page.matchAll(/^```json5\n([^]*?)^```$/gm)].find(([, text]) =>
      /messageTemplate: \[/.test(text ?? ""),
    )?.[1] ?? "";
  const order: { match: { path: string } } = JSON5.parse(example);
  const wake = { action: "wake", textTemplate: ["Backup {{state}}.", "Size: {{size}}"] };
  const nightly = { id: "nightly", match: { path: "nightly" }, shadow: true, ...wake };
  const world = await createWorld({
    workers: false,
    config: { hooks: { mappings: [order, nightly] } },
  });
  const made = await world.post(`/hooks/${order.match.path}`, {
    order: { id: 7, customer: { name: "Ann" } },
  });
  expect([made.status, made.body.warnings]).toEqual([202, undefined]);
  const { run } = (await world.admin(`/admin/v1/runs/${made.body.runId}`)).body;
  expect(plainText(run.input)).toBe("Order 7 was paid.\nCustomer: Ann");
  const woken = await world.post("/hooks/nightly", { state: "done" });
  const { event } = (await world.admin(`/admin/v1/events/${woken.body.eventId}`)).body;
  expect(event).toMatchObject({ missing: [], would: [{ kind: "wake" }] });
  expect(plainText(event.would[0].content)).toBe("Backup done.");
  await world.stop();
});
