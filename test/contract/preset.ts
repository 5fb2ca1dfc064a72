import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import type { PresetDocument } from "../../src/config/schema/mapping.ts";
import { parseHttpSample, type HttpSample } from "../../src/contract/http-sample.ts";
import { testPreset } from "../../src/testing/preset.ts";
import { SENDERS } from "../signatures/senders.ts";

const FIXTURES = resolve(import.meta.dirname, "../fixtures");
const MAPPINGS = resolve(import.meta.dirname, "../../mappings");

interface Example {
  name: string;
  examples: { action?: string }[];
}

/** Finds the body that a fixture names in its source instead of having it, such as "@octokit/webhooks-examples, issues opened". */
function readExample(source: string): string {
  const [, name, action] = /^@octokit\/webhooks-examples, (\S+) (\S+)$/.exec(source) ?? [];
  const loaded = createRequire(import.meta.url)("@octokit/webhooks-examples") as
    | Example[]
    | { default: Example[] };
  const found = (Array.isArray(loaded) ? loaded : loaded.default).find((one) => one.name === name);
  return JSON.stringify(found?.examples.find((one) => one.action === action));
}

/** The payload that a request's body is read as. */
export function readPayload({ body, headers }: HttpSample): unknown {
  return headers["content-type"]?.includes("form")
    ? Object.fromEntries(new URLSearchParams(body))
    : JSON.parse(body);
}

type PresetFile = PresetDocument & { mappings: { match: { path: string } }[] };

/** A preset as its file has it. */
export function presetFile(preset: string): PresetFile {
  return JSON.parse(readFileSync(join(MAPPINGS, `${preset}.json`), "utf8")) as PresetFile;
}

/** Reads the requests that are kept for a preset, with the names of their files. */
export function readFixtures(preset: string): [string, HttpSample][] {
  return readdirSync(join(FIXTURES, preset)).map((name) => {
    const sample = parseHttpSample(name, readFileSync(join(FIXTURES, preset, name), "utf8"));
    return [name, sample.body === "" ? { ...sample, body: readExample(sample.source) } : sample];
  });
}

/** Calls the suite of presets with the requests that are kept for a preset that ships. */
export function presetContract(
  preset: string,
  document: PresetDocument = presetFile(preset),
): void {
  const fixtures = readFixtures(preset);
  const [first, ...others] = fixtures.map(([, sample]) => sample);
  if (!first) throw new Error(`no request is kept for the preset ${preset}`);
  const scheme = document.auth && "scheme" in document.auth ? document.auth.scheme : undefined;
  const signer = SENDERS.find((sender) => sender.scheme === scheme);
  testPreset({ preset: document, plugins: "shipped", signer, samples: [first, ...others] });
  const eventHeaders = Object.keys(document.setup?.eventHeaders ?? {});
  it.each(fixtures)(
    `${preset}: %s is posted to the preset's path, with the headers that name the event`,
    (_name, { path, headers }) => {
      expect(path).toBe([document.mappings[0]?.match?.path].flat()[0]);
      expect(Object.keys(headers)).toEqual(["content-type", ...eventHeaders]);
    },
  );
}
