import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { plainText } from "../../src/core/text.ts";
import type { ActionDraft } from "../../src/mapping/types.ts";
import { holesIn } from "../../src/testing/holes.ts";
import { withoutHoles, withOneFieldLess, withOneOtherType } from "../contract/holes.ts";
import { presetFile, readFixtures, readPayload } from "../contract/preset.ts";
import { byHookToken, compile, input, PRESETS, presetNames } from "./world.ts";

const RECORDED = resolve(import.meta.dirname, "../fixtures/recorded");
const { set, issues } = await compile({ presets: byHookToken(presetNames) });
// A preset whose wanted events are none skips each event, and says by which name.
const withEvents = presetNames.filter((name) =>
  presetFile(name).mappings.some((mapping) => mapping.event !== undefined),
);
const { set: naming } = await compile({
  presets: byHookToken(withEvents).map((use) => ({ ...use, events: ["none"] })),
});

const pathOf = (preset: string): string => presetFile(preset).mappings[0]?.match.path ?? "";

/** Bodies that others have recorded or published. */
function recordedFor(preset: string): [string, unknown][] {
  const folder = join(RECORDED, preset);
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".json"))
    .map((name) => [name, JSON.parse(readFileSync(join(folder, name), "utf8"))]);
}

function problemsOf({ fields, content, missing }: ActionDraft): string[] {
  const { name, sessionKey } = fields as Record<string, string>;
  return [
    ...holesIn(plainText(content)).map((hole) => `message: ${hole}`),
    ...holesIn(name ?? "").map((hole) => `name: ${hole}`),
    ...(/^hook(?::[^:]+)+$/.test(sessionKey ?? "") ? [] : [`sessionKey: ${sessionKey}`]),
    ...missing.map((expression) => `missing: ${expression}`),
  ];
}

async function eventProblems(path: string, body: unknown): Promise<string[]> {
  const outcome = await naming.run(input(path, body));
  if (outcome.kind !== "skipped") return outcome.kind === "failed" ? [outcome.failure.message] : [];
  const [, event = ""] = /^the event "(.*)" is not among/.exec(outcome.reason) ?? [];
  return /^[\w-]+(?:\.[\w-]+)*$/.test(event) ? [] : [`event: ${event}`];
}

/** The failures of a body, each of them a 500 for the sender. A part that a mapping cannot do without may be missing. */
async function failuresWith(preset: string, body: unknown): Promise<string[]> {
  const path = pathOf(preset);
  const outcomes = [await set.run(input(path, body))];
  if (withEvents.includes(preset)) outcomes.push(await naming.run(input(path, body)));
  return outcomes.flatMap((outcome) => {
    if (outcome.kind === "failed") return [outcome.failure.message];
    if (outcome.kind !== "actions") return [];
    return outcome.results.flatMap((result) =>
      result.ok || result.failure.code === "mapping_incomplete" ? [] : [result.failure.message],
    );
  });
}

/** The problems in the result of a preset for a body. A body that no mapping takes, or that gives no text, has none. */
async function problemsWith(preset: string, body: unknown): Promise<string[]> {
  const path = pathOf(preset);
  const outcome = await set.run(input(path, body));
  if (outcome.kind === "unmatched" || outcome.kind === "skipped") return [];
  if (outcome.kind !== "actions") return [`${outcome.mapping}: ${outcome.failure.message}`];
  const problems = outcome.results.flatMap((result) => {
    if (result.ok)
      return problemsOf(result.draft).map((problem) => `${result.draft.mapping}: ${problem}`);
    return result.failure.code === "mapping_incomplete"
      ? []
      : [`${result.mapping}: ${result.failure.message}`];
  });
  return withEvents.includes(preset)
    ? [...problems, ...(await eventProblems(path, body))]
    : problems;
}

it("presets: all compile", () => expect(issues).toEqual([]));

describe.each(presetNames)("the sentences of the preset %s", (preset) => {
  const text = readFileSync(join(PRESETS, `${preset}.json`), "utf8");
  const uses = (name: string): boolean => text.includes(name);

  it.each(readFixtures(preset))(
    "have no hole for %s, nor for the same body with a field left out, null or empty",
    async (_name, fixture) => {
      const body = withoutHoles(readPayload(fixture));
      expect(await problemsWith(preset, body)).toEqual([]);
      const found: string[] = [];
      for (const { change, body: changed } of withOneFieldLess(body, uses))
        for (const problem of await problemsWith(preset, changed))
          found.push(`${change} → ${problem}`);
      expect(found).toEqual([]);
    },
  );

  it("make an event, or a reason, whatever type a field of the sender has", async () => {
    const found: string[] = [];
    const seen = new Map<string, Set<string>>();
    for (const [, fixture] of readFixtures(preset)) {
      const body = readPayload(fixture);
      const { mapping } = (await set.run(input(pathOf(preset), body))) as { mapping?: string };
      const places = seen.get(mapping ?? "") ?? new Set();
      seen.set(mapping ?? "", places);
      for (const { change, body: changed } of withOneOtherType(body, places))
        for (const failure of await failuresWith(preset, changed))
          found.push(`${change} → ${failure}`);
    }
    expect(found).toEqual([]);
  });

  it("have no hole for any recorded body", async () => {
    const found: string[] = [];
    for (const [name, body] of recordedFor(preset))
      for (const problem of await problemsWith(preset, withoutHoles(body)))
        found.push(`${name} → ${problem}`);
    expect(found).toEqual([]);
  });
});
