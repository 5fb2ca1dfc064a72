import { fork } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EXPRESSIONS, MAPPINGS, MODULES } from "../../bench/hostile.ts";
import { scale } from "../soak.ts";
import { startProgram, type Program } from "./program.ts";

// `npm run bench -- --row isolation` measures the delay of other hooks.

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "isolation-token-0123456789";
const SECRET = "isolation-secret-0123456789";
/** Hooks of others that are answered during each attack. */
const OTHERS = scale(10, 400);
const ATTACKERS = scale(2, 3);
/** Attacks that no guard ends early: each takes as long as a transform may. */
const LASTING = ["recursion", "serialising", "endless", "allocating", "never"];

let dir: string;
let program: Program;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-isolation-"));
  mkdirSync(join(dir, "transforms"));
  for (const [name, code] of Object.entries(MODULES))
    writeFileSync(join(dir, "transforms", `${name}.js`), code);
  const signedMapping = {
    id: "signed",
    match: { path: "signed" },
    wakeMode: "next-heartbeat",
    deliver: false,
    messageTemplate: "{{n}}",
  };
  const mappings = [{ ...signedMapping, auth: { scheme: "github", secret: SECRET } }, ...MAPPINGS];
  const hooks = { enabled: true, token: TOKEN, transformTimeoutSeconds: 1, mappings };
  writeFileSync(
    join(dir, "rouse.json5"),
    JSON.stringify({ gateway: { port: 0, drainSeconds: 0 }, hooks }),
  );
  const args = [join(ROOT, "bin/rouse.js"), "start", "--no-workers"];
  program = await startProgram(process.execPath, args, {
    cwd: dir,
    env: { ROUSE_LOG_LEVEL: "silent" },
  });
});
afterAll(async () => {
  await program?.stop();
  rmSync(dir, { recursive: true, force: true });
});

const agent = new Agent({ keepAlive: true });
const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };

interface Answer {
  status: number;
  body: string;
}

function post(
  path: string,
  payload: object,
  sign?: (body: string) => Record<string, string>,
): Promise<Answer> {
  return new Promise((done, failed) => {
    const text = JSON.stringify(payload);
    const sent = { ...headers, ...sign?.(text) };
    const outgoing = request(
      `${program.url}/hooks/${path}`,
      { method: "POST", agent, headers: sent },
      (incoming) => {
        let body = "";
        incoming.on("data", (chunk: Buffer) => (body += chunk.toString()));
        incoming.on("end", () => done({ status: incoming.statusCode ?? 0, body }));
      },
    );
    outgoing.on("error", failed);
    outgoing.end(text);
  });
}

const plain = (): Promise<Answer> => post("plain", { name: "Ann", place: { town: "Ulm" } });
let signedBodies = 0;
const signed = (): Promise<Answer> =>
  post("signed", { n: ++signedBodies, text: "x".repeat(20_000) }, (body) => ({
    "x-hub-signature-256": `sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`,
  }));

/** Posts hooks of others, one after the other, until so many are answered and `isEnough`. Returns how many. */
async function answerOthers(
  send: () => Promise<Answer>,
  isEnough: () => boolean = () => true,
): Promise<number> {
  let answered = 0;
  for (; answered < OTHERS || !isEnough(); answered++) expect((await send()).status).toBe(202);
  return answered;
}

/** Posts the attack over and over, while other hooks are answered. `during`: the most of them during one attack. */
async function attack(
  path: string,
  payload: object,
): Promise<{ answers: Answer[]; during: number }> {
  let over = false;
  let others = 0;
  let during = 0;
  const answers: Answer[] = [];
  const attackers = Array.from({ length: ATTACKERS }, async () => {
    while (!over) {
      const before = others;
      answers.push(await post(path, payload));
      during = Math.max(during, others - before);
    }
  });
  const answering = answerOthers(
    async () => {
      const answer = await plain();
      others++;
      return answer;
    },
    () => answers.length > 0,
  ).finally(() => (over = true));
  await Promise.all([answering, ...attackers]);
  return { answers, during };
}

const ATTACKS: [string, object, string][] = [
  ...Object.entries(EXPRESSIONS).map(
    ([path, [, payload]]) => [path, payload, "mapping_failed"] as [string, object, string],
  ),
  ...Object.keys(MODULES).map((path) => [path, {}, "transform_failed"] as [string, object, string]),
];

describe("while one mapping is attacked, other hooks are answered", () => {
  it.each(ATTACKS)("%s", { timeout: 180_000 }, async (path, payload, code) => {
    const { answers, during } = await attack(path, payload);
    console.log(
      `${path}: ${answers.length} attacks ended, up to ${during} other hooks answered during one`,
    );
    // While an attack holds up the gateway itself, no other hook is answered: one at most between two attacks.
    if (LASTING.includes(path)) expect(during).toBeGreaterThan(2 * ATTACKERS);
    // Each has its end: a clear error, or an answer where the guards made the attack harmless.
    for (const { status, body } of answers) {
      const { error, eventId } = JSON.parse(body) as { error?: { code: string }; eventId?: string };
      if (status === 500) expect(error?.code).toBe(code);
      else
        expect([202, 400].includes(status) && (eventId !== undefined || error !== undefined)).toBe(
          true,
        );
    }
    const { requestId, eventId } = JSON.parse(answers[0]?.body ?? "{}") as {
      requestId?: string;
      eventId?: string;
    };
    const receipt = await fetch(`${program.url}/hooks/events/${eventId ?? requestId}`, { headers });
    const { event } = (await receipt.json()) as {
      event: { outcome: string; mapping: string; reason: string | null };
    };
    expect(event.mapping).toBe(path);
    expect(event.outcome).toBe(
      answers[0]?.status === 500 ? "failed" : answers[0]?.status === 202 ? "accepted" : "rejected",
    );
  });
});

it(
  "hooks with a good signature are answered while badly signed bodies flood a path",
  { timeout: 180_000 },
  async () => {
    const child = fork(join(import.meta.dirname, "flood-child.ts"), [
      `${program.url}/hooks/signed`,
    ]);
    const [first] = (await once(child, "message")) as ["flooding" | number];
    expect(first).toBe("flooding");
    await answerOthers(signed);
    child.send("stop");
    const [answered] = (await once(child, "message")) as [number];
    console.log(`${answered} bad signatures`);
    expect(answered).toBeGreaterThan(0);
    const refusals = await fetch(`${program.url}/hooks/signed`, {
      method: "POST",
      headers: { "x-hub-signature-256": "sha256=00" },
      body: "{}",
    });
    expect([401, 429]).toContain(refusals.status);
  },
);
