import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  readBodies,
  readSources,
  RECORDED,
  type RecordedBody,
  type RecordedSource,
} from "../../scripts/recorded-bodies.ts";
import { parseHttpSample } from "../../src/contract/http-sample.ts";
import { createWorld, TOKEN, type Answer, type World } from "../e2e/world.ts";
import { PRESETS, presetNames } from "../mapping/world.ts";
import { SENDERS } from "../signatures/senders.ts";

const PUBLIC_URL = "https://hooks.example.com";
/** Licences that allow redistribution. */
const LICENCES = ["Apache-2.0", "BSD-2-Clause", "MIT", "MIT OR Apache-2.0"];
const SECRETS =
  /glpat-[\w-]{20}|xox[abposr]-\w|sk_live_\w|rk_live_\w|whsec_\w|AKIA[A-Z0-9]{16}|gh[opsu]_\w{20}|PRIVATE KEY/;

const sources = readSources();
const folders = (path: string): string[] =>
  readdirSync(path, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? [entry.name] : [],
  );

/** The signer for the sender of a preset; undefined if its requests carry the hook token. */
function getSender(preset: string) {
  const { auth } = JSON.parse(readFileSync(join(PRESETS, `${preset}.json`), "utf8")) as {
    auth?: { scheme: string };
  };
  return SENDERS.find(({ scheme }) => scheme === auth?.scheme);
}

let world: World;
beforeAll(async () => {
  const presets = [...new Set(sources.map(({ sender }) => sender))].map((use) => {
    const secret = getSender(use)?.secrets[0];
    return secret === undefined ? use : { use, secret };
  });
  world = await createWorld({
    workers: false,
    config: { gateway: { publicUrl: PUBLIC_URL }, hooks: { presets } },
  });
});
afterAll(() => world.stop());

/** Posts a body as its sender would post it now: signed, and with the current time if the body has one. */
function post({ sender: preset }: RecordedSource, { text }: RecordedBody): Promise<Answer> {
  const path = `/hooks/${preset}`;
  const sender = getSender(preset);
  const time = Math.floor(Date.now() / 1000);
  const body = text.replace(
    /"webhookTimestamp":(?:\d+|"[^"]*")/,
    `"webhookTimestamp":${time * 1000}`,
  );
  const signed = sender?.sign({
    body,
    secret: sender.secrets[0],
    time,
    url: PUBLIC_URL + path,
  }).headers;
  const credential = signed
    ? { authorization: "", ...signed }
    : { authorization: `Bearer ${TOKEN}` };
  return world.post(path, body, { "content-type": "application/json", ...credential });
}

describe.each(sources.map((source) => [`${source.sender}, ${source.title}`, source] as const))(
  "%s",
  (_name, source) => {
    it("gets a 2xx answer for every body, and a complete session key for every run", async ({
      annotate,
    }) => {
      const problems: string[] = [];
      const counts = { bodies: 0, matched: 0, unmatched: 0, handshakes: 0, refused: 0 };
      for (const body of readBodies(source)) {
        const { status, headers, body: answer } = await post(source, body);
        const actions: { runId?: string; mode?: string; sessionKey?: string }[] =
          answer.results ?? [answer];
        counts.bodies++;
        if (status >= 300) counts.refused++;
        else if (actions.some(({ runId, mode }) => runId !== undefined || mode !== undefined))
          counts.matched++;
        else counts[answer.outcome === "unmatched" ? "unmatched" : "handshakes"]++;
        if (status >= 300) problems.push(`${body.name}: ${status} ${answer.error?.code}`);
        if (headers.get("idempotent-replayed") !== null)
          problems.push(`${body.name}: answered as a duplicate of another body`);
        for (const { sessionKey = "hook:none" } of actions)
          if (!/^hook(?::[^:]+)+$/.test(sessionKey))
            problems.push(`${body.name}: session key ${sessionKey}`);
      }
      await annotate(JSON.stringify(counts));
      expect(counts.bodies).toBeGreaterThan(0);
      expect(problems).toEqual([]);
    });
  },
);

describe("the recorded bodies", () => {
  it("belong to a listed source, with a licence that allows redistribution", () => {
    const kept = folders(RECORDED).flatMap((sender) =>
      folders(join(RECORDED, sender)).map((id) => `${sender}/${id}`),
    );
    const listed = sources
      .filter(({ modules }) => modules === undefined)
      .map(({ sender, id }) => `${sender}/${id}`);
    expect(kept.toSorted()).toEqual(listed.toSorted());
    for (const { licence, copyright, url, origin } of sources) {
      expect(LICENCES).toContain(licence);
      expect([copyright, url, origin]).not.toContain("");
    }
  });

  it("have their licence text beside them if Rouse's own licence is another one", () => {
    const wanted = sources.filter(
      ({ licence, modules }) => !licence.includes("Apache-2.0") && modules === undefined,
    );
    expect(
      wanted.filter(({ sender, id }) => !existsSync(join(RECORDED, sender, id, "LICENSE"))),
    ).toEqual([]);
  });

  it("ship as samples unchanged, under a licence whose text ships too; a preset without recorded bodies has one built by hand", () => {
    interface ShippedSample {
      from: string;
      licence: string;
      body: unknown;
    }
    const problems: string[] = [];
    const samples = join(PRESETS, "samples");
    for (const name of readdirSync(samples, { recursive: true, encoding: "utf8" }).filter((file) =>
      file.endsWith(".json"),
    )) {
      const { from, licence, body } = JSON.parse(
        readFileSync(join(samples, name), "utf8"),
      ) as ShippedSample;
      const kept = readFileSync(join(PRESETS, "..", from), "utf8");
      const original = from.endsWith(".http")
        ? parseHttpSample(from, kept).body
        : JSON.stringify(JSON.parse(kept));
      if ((typeof body === "string" ? body : JSON.stringify(body)) !== original)
        problems.push(`${name} differs from ${from}`);
      if (!licence.includes("Apache-2.0")) problems.push(`${name}: ${licence}`);
    }
    expect(problems).toEqual([]);
    expect(folders(samples).toSorted()).toEqual(presetNames.toSorted());
  });

  it("are stored once each, and hold no secret of a live account", () => {
    const seen = new Map<string, string>();
    const problems: string[] = [];
    for (const source of sources) {
      for (const { name, text } of readBodies(source)) {
        const place = `${source.sender}/${source.id}/${name}`;
        const other = seen.get(source.sender + text);
        if (other !== undefined) problems.push(`${place} equals ${other}`);
        if (source.modules === undefined && SECRETS.test(text))
          problems.push(`${place} holds what looks like a secret`);
        seen.set(source.sender + text, place);
      }
    }
    expect(problems).toEqual([]);
  });
});
