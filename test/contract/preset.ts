import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, TOKEN, type Answer, type World } from "../e2e/world.ts";
import { holesIn } from "./holes.ts";
import { SENDERS, type Sender } from "../signatures/senders.ts";

const FIXTURES = resolve(import.meta.dirname, "../fixtures");
const MAPPINGS = resolve(import.meta.dirname, "../../mappings");
const PUBLIC_URL = "https://hooks.example.com";

interface Fixture {
  /** Where the body comes from. */
  source: string;
  body: unknown;
  contentType?: string;
  expect: { mapping: string; sessionKey: string | null; text: string[] };
}
interface Example {
  name: string;
  examples: { action?: string }[];
}

function recorded(body: unknown): string {
  const named = (body as { octokit?: [string, string] }).octokit;
  if (!named) return typeof body === "string" ? body : JSON.stringify(body);
  const loaded = createRequire(import.meta.url)("@octokit/webhooks-examples") as Example[] | { default: Example[] };
  const found = (Array.isArray(loaded) ? loaded : loaded.default).find((one) => one.name === named[0]);
  return JSON.stringify(found?.examples.find((one) => one.action === named[1]));
}

/** The payload that a fixture's body is read as. */
export function payloadOf({ body, contentType }: Fixture): unknown {
  const text = recorded(body);
  return contentType?.includes("form") ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text);
}

interface PresetFile {
  auth?: { scheme: string };
  mappings: { id: string; match: { path: string }; event?: string; dedupeKey?: string; [field: string]: unknown }[];
}

/** A preset as its file has it. */
export function presetFile(preset: string): PresetFile {
  return JSON.parse(readFileSync(join(MAPPINGS, `${preset}.json`), "utf8")) as PresetFile;
}

/** The bodies that are kept for a preset, by the names of their files. */
export function fixturesOf(preset: string): [string, Fixture][] {
  return readdirSync(join(FIXTURES, preset)).map((name) => [
    name,
    JSON.parse(readFileSync(join(FIXTURES, preset, name), "utf8")) as Fixture,
  ]);
}

/** A preset and the bodies that its sender posts; `files` lie beside the config, such as the plugin that brings it. */
interface GivenPreset {
  file: PresetFile;
  fixtures: [string, Fixture][];
  files?: Record<string, string>;
}

/** Suite for every preset: its sender's requests, signed where it signs, and those that nobody should believe. */
export function presetContract(preset: string, given?: GivenPreset): void {
  const { file, fixtures, files = {} } = given ?? { file: presetFile(preset), fixtures: fixturesOf(preset) };
  const sender = file.auth ? SENDERS.find((one) => one.scheme === file.auth?.scheme) : undefined;
  const path = file.mappings[0]?.match.path ?? "";
  const url = `${PUBLIC_URL}/hooks/${path}`;
  let world: World;

  /** Posts as the sender does; without a scheme, with the hook token. */
  const send = (
    body: string,
    fixture: Fixture,
    { to = path, secret = sender?.secrets[0] ?? "", seconds = 0, alter = false, from = Date.now() } = {},
  ): Promise<Answer> => {
    const time = Math.floor(from / 1000) + seconds;
    // A sender whose time stands in the body writes it there.
    const timed =
      sender?.body && sender.tolerance !== undefined ? body.replace(/"webhookTimestamp":\d+/, `"webhookTimestamp":${time * 1000}`) : body;
    const signed = sender
      ? sender.sign({ body: timed, secret, time, url, id: `msg_${timed.length}` }).headers
      : { authorization: `Bearer ${TOKEN}` };
    // Who signs nothing sends an id of its own, the same in each try.
    const id = sender?.coversBody === false ? { "idempotency-key": `${body.length}-${body.slice(-20)}` } : {};
    const headers = { ...id, authorization: "", "content-type": fixture.contentType ?? "application/json", ...signed };
    return world.post(
      `/hooks/${to}`,
      alter ? `${timed.slice(0, -2)}${timed.at(-2) === "1" ? "2" : "1"}${timed.slice(-1)}` : timed,
      headers,
    );
  };

  describe(`preset ${preset}`, () => {
    beforeAll(async () => {
      const presets = sender ? [{ use: preset, secret: sender.secrets[0] }] : [preset];
      const other = {
        id: "other",
        match: { path: "other" },
        auth: { scheme: "github", secret: "another-senders-secret-0123" },
        messageTemplate: "x",
      };
      world = await createWorld({
        workers: false,
        files,
        config: { gateway: { publicUrl: PUBLIC_URL }, hooks: { presets, mappings: [other] } },
      });
    });
    afterAll(() => world.stop());

    it("has no template line of more than 200 characters, as people read and copy it", () => {
      const isTemplate = (text: unknown) => typeof text === "string" && text.includes("{{");
      const lines = file.mappings.flatMap((mapping) => Object.values(mapping).flat().filter(isTemplate));
      expect(lines.length).toBeGreaterThan(0);
      expect(lines.filter((line) => String(line).length > 200)).toEqual([]);
    });

    it("has no warning of its own", () => {
      expect(world.gateway.status().warnings.filter((warning) => warning.path.includes(preset))).toEqual([]);
    });

    it.each(fixtures)("%s becomes a run that a person would want to read", async (_name, fixture) => {
      const answer = await send(recorded(fixture.body), fixture);
      const result = answer.body.results?.[0] ?? answer.body;
      expect([answer.status, result.mapping]).toEqual([202, fixture.expect.mapping]);
      if (fixture.expect.sessionKey !== null) expect(result.sessionKey).toBe(fixture.expect.sessionKey);
      const { run } = (await world.admin(`/admin/v1/runs/${result.runId}`)).body;
      const text = run.input.map((part: { text: string }) => part.text).join("");
      for (const words of fixture.expect.text) expect(text).toContain(words);
      expect(text).not.toContain("{{");
      expect(holesIn(run.name)).toEqual([]);
      expect(fixture.source).not.toBe("");
    });

    it("does an event once", async () => {
      const [, fixture] = fixtures[0] as [string, Fixture];
      const body = recorded(fixture.body);
      const from = Date.now();
      const first = await send(body, fixture, { from });
      // A redelivery is signed anew; where the time stands in the body, it would be another body.
      const again = await send(body, fixture, { from, seconds: sender?.scheme === "linear" ? 0 : 1 });
      // Without a signature, only what the mapping names tells a repeat.
      if (sender || file.mappings.some((mapping) => mapping.dedupeKey !== undefined))
        expect((again.body.results?.[0] ?? again.body).runId).toBe((first.body.results?.[0] ?? first.body).runId);
    });

    if (sender) badRequests(sender);
    else
      it("is not believed without the hook token", async () => {
        const [, fixture] = fixtures[0] as [string, Fixture];
        expect((await world.post(`/hooks/${path}`, recorded(fixture.body), { authorization: "" })).status).toBe(401);
      });
  });

  function badRequests(signing: Sender): void {
    const [, fixture] = fixtures[0] as [string, Fixture];
    const body = recorded(fixture.body);
    it("is not believed with an altered byte, another's key, or on another's hook", async () => {
      if (signing.coversBody !== false) expect((await send(body, fixture, { alter: true })).status).toBe(401);
      // Where a key pair signs there is one private key: there the altered byte says it.
      if (!signing.secrets[0].startsWith("whpk_")) expect((await send(body, fixture, { secret: signing.secrets[1] })).status).toBe(401);
      expect((await send(body, fixture, { to: "other" })).status).toBe(401);
    });

    if (signing.tolerance !== undefined) {
      const { tolerance } = signing;
      it("is not believed when it is stale, or from the future", async () => {
        expect((await send(body, fixture, { seconds: -tolerance - 5 })).status).toBe(401);
        expect((await send(body, fixture, { seconds: tolerance + 5 })).status).toBe(401);
      });
    }
  }
}
