import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PresetDocument } from "../config/schema/mapping.ts";
import { definePlugin, type Plugin } from "../contract/define.ts";
import { createTestGateway, HOOK_TOKEN, PUBLIC_URL, type TestGateway } from "./gateway.ts";
import { expectText } from "./harness.ts";
import { holesIn } from "./holes.ts";
import type { Signer } from "./scheme.ts";

/** A body that the sender posts, and what the preset makes of it. */
export interface PresetSample {
  name: string;
  /** As it is posted. */
  body: string;
  /** Default: `application/json`. */
  contentType?: string;
  /** Headers as they are posted, with names in lower case. The suite adds those of the signature. */
  headers?: Readonly<Record<string, string>>;
  expect: {
    /** The mapping that takes it; `null` if none does. */
    mapping: string | null;
    /** The session of the run; `null` if it does not matter. */
    sessionKey: string | null;
    /** Words that the agent is given. */
    text: readonly string[];
  };
}

export interface PresetOptions {
  preset: PresetDocument;
  samples: readonly [PresetSample, ...PresetSample[]];
  /** The sender's way of signing. Without it the requests carry the hook token. */
  signer?: Signer | undefined;
  /** Plugins that the preset needs. One of them may bring the preset. `"shipped"`: Rouse itself brings the preset. */
  plugins?: readonly Plugin[] | "shipped";
  /** A body that is not for the preset. Default: an object with one unknown member. */
  unrelated?: string;
}

const UNRELATED = '{"unrelated-to-every-preset":true}';
const OTHER = {
  id: "other",
  match: { path: "other" },
  auth: { token: "the-token-of-another-sender-0123" },
  messageTemplate: "x",
};

interface Sending {
  to?: string;
  secret?: string | undefined;
  /** Seconds since the epoch. */
  time?: number;
  alter?: boolean;
}
type Send = (
  sample: Pick<PresetSample, "body" | "contentType" | "headers">,
  sending?: Sending,
) => Promise<{ status: number; result: Result }>;
interface Result {
  mapping?: string;
  runId?: string;
  sessionKey?: string;
}

function pluginsFor({ preset, plugins = [] }: PresetOptions): readonly Plugin[] {
  if (plugins === "shipped") return [];
  if (plugins.some((plugin) => plugin.presets?.some(({ id }) => id === preset.id))) return plugins;
  return [...plugins, definePlugin({ id: "preset-under-test", presets: [preset] })];
}

const pathIn = ({ mappings: [first] }: PresetDocument): string =>
  String([first?.match?.path].flat()[0]);
const nowSeconds = (): number => Math.floor(Date.now() / 1000);

/** Changes one character of a JSON text or a form, before its last. */
const altered = (text: string): string =>
  `${text.slice(0, -2)}${text.at(-2) === "1" ? "2" : "1"}${text.slice(-1)}`;

function createSend(options: PresetOptions, world: () => TestGateway): Send {
  const { signer } = options;
  const path = pathIn(options.preset);
  return async (
    sample,
    { to = path, secret = signer?.secrets[0], time = nowSeconds(), alter = false } = {},
  ) => {
    const body = signer?.writeTime?.(sample.body, time) ?? sample.body;
    const url = `${PUBLIC_URL}/hooks/${path}`;
    const signed = signer?.sign({
      body,
      secret: secret ?? "",
      time,
      url,
      id: `msg_${body.length}`,
    }).headers;
    // A sender that signs no body sends an id of its own, the same in each try.
    const id =
      signer?.coversBody === false
        ? { "idempotency-key": `${body.length}-${body.slice(-20)}` }
        : {};
    const credential = signed ?? { authorization: `Bearer ${HOOK_TOKEN}` };
    const contentType = sample.contentType ?? "application/json";
    const headers = {
      ...id,
      authorization: "",
      "content-type": contentType,
      ...sample.headers,
      ...credential,
    };
    const answer = await world().post(to, alter ? altered(body) : body, headers);
    const given = answer.body as Result & { results?: Result[] };
    return { status: answer.status, result: given.results?.[0] ?? given };
  };
}

/** Declares the tests that every preset passes, on a gateway: its sender's requests are understood, and no others are taken. */
export function testPreset(options: PresetOptions): void {
  const { preset, samples, signer } = options;
  describe(`preset ${preset.id}`, () => {
    let gateway: TestGateway | undefined;
    const world = (): TestGateway => gateway as TestGateway;
    const send = createSend(options, world);
    beforeAll(async () => {
      const presets = signer ? [{ use: preset.id, secret: signer.secrets[0] }] : [preset.id];
      gateway = await createTestGateway({ presets, mappings: [OTHER] }, pluginsFor(options));
    });
    afterAll(() => gateway?.close());

    testDocument(preset, world);
    it.each(named(samples.filter(({ expect: { mapping } }) => mapping !== null)))(
      "%s becomes a run that a person would want to read",
      (_name, sample) => expectRun(sample, send, world),
    );
    it.each(named(samples.filter(({ expect: { mapping } }) => mapping === null)))(
      "%s makes no run",
      async (_name, sample) => {
        const { status, result } = await send(sample);
        expect([status, result.mapping, result.runId]).toEqual([200, undefined, undefined]);
      },
    );
    testRepeats(options, send);

    it("leaves an unrelated body alone", async () => {
      const { status, result } = await send({ body: options.unrelated ?? UNRELATED });
      expect([status === 202 && result.runId !== undefined, result.mapping]).toEqual([
        false,
        undefined,
      ]);
    });

    if (signer) testForgeries(samples[0], signer, send);
    else
      it("is refused without the hook token", async () => {
        expect(
          (await world().post(pathIn(preset), samples[0].body, { authorization: "" })).status,
        ).toBe(401);
      });
  });
}

function testDocument({ id, mappings }: PresetDocument, world: () => TestGateway): void {
  it("has no template line of more than 200 characters, as people read and copy it", () => {
    const isTemplate = (text: unknown): text is string =>
      typeof text === "string" && text.includes("{{");
    const lines = mappings.flatMap((mapping) => Object.values(mapping).flat().filter(isTemplate));
    expect(lines.filter((line) => line.length > 200)).toEqual([]);
  });

  it("has no warning of its own", () => {
    const warnings = world().gateway.status().warnings;
    expect(warnings.filter(({ path, message }) => `${path} ${message}`.includes(id))).toEqual([]);
  });
}

const named = (samples: readonly PresetSample[]): [string, PresetSample][] =>
  samples.map((sample) => [sample.name, sample]);

async function expectRun(
  sample: PresetSample,
  send: Send,
  world: () => TestGateway,
): Promise<void> {
  const { status, result } = await send(sample);
  expect([status, result.mapping]).toEqual([202, sample.expect.mapping]);
  if (sample.expect.sessionKey !== null) expect(result.sessionKey).toBe(sample.expect.sessionKey);
  expectText(result.runId);
  const { name, text } = await world().readRun(String(result.runId));
  for (const words of sample.expect.text) expect(text).toContain(words);
  expect(text).not.toContain("{{");
  expect(holesIn(name)).toEqual([]);
}

function testRepeats({ preset, samples, signer }: PresetOptions, send: Send): void {
  const withKey = preset.mappings.flatMap(({ id, dedupeKey }) => (dedupeKey ? [id] : []));
  // Else only the sender's scheme tells a repeat.
  const told = samples.filter(
    ({ expect: { mapping } }) =>
      mapping !== null && ((signer && signer.tellsRepeats !== false) || withKey.includes(mapping)),
  );
  it.each(named(told))("%s is done once", async (_name, sample) => {
    const time = nowSeconds();
    const first = await send(sample, { time });
    // A redelivery is signed again, at another time, which some senders write into the body.
    const again = await send(sample, { time: time + 1 });
    expectText(first.result.runId);
    expect(again.result.runId).toBe(first.result.runId);
  });

  if (told.length < 2) return;
  it("takes different events for different ones", async () => {
    const runs = new Set<string | undefined>();
    for (const sample of told) runs.add((await send(sample)).result.runId);
    expect(runs.size).toBe(told.length);
  });
}

function testForgeries(sample: PresetSample, signer: Signer, send: Send): void {
  it("is refused with an altered byte, another secret, or on the path of another sender", async () => {
    if (signer.coversBody !== false) expect((await send(sample, { alter: true })).status).toBe(401);
    if (!signer.isKeyPair)
      expect((await send(sample, { secret: signer.secrets[1] })).status).toBe(401);
    expect((await send(sample, { to: "other" })).status).toBe(401);
  });

  const { tolerance } = signer;
  if (tolerance === undefined) return;
  it("is refused if it is stale or from the future", async () => {
    for (const seconds of [-tolerance - 5, tolerance + 5])
      expect((await send(sample, { time: nowSeconds() + seconds })).status).toBe(401);
  });
}
