import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createRandom } from "../../../bench/simulate/random.ts";
import { startProgram, type Program } from "../program.ts";
import { Day, type Size } from "./day.ts";
import { isListening } from "./run.ts";
import { judge } from "./verdict.ts";

const ROUSE = resolve(import.meta.dirname, "../../../bin/rouse.js");
const TOKEN = "office-operator-token-0123456789";
const REST_MS = 90_000;

/** The program, which is killed and started again; what it is asked meanwhile waits. */
class Mortal {
  #program: Promise<Program>;
  readonly #dir: string;
  kills = 0;

  constructor(dir: string) {
    this.#dir = dir;
    this.#program = this.#start();
  }

  #start = (): Promise<Program> =>
    startProgram(process.execPath, [ROUSE, "start"], {
      cwd: this.#dir,
      env: { ROUSE_LOG_LEVEL: "silent" },
    });

  async kill(): Promise<void> {
    const program = await this.#program;
    await program.kill();
    this.kills++;
    this.#program = this.#start();
  }

  async end(): Promise<void> {
    await (await this.#program).kill();
  }

  /** Asks until there is an answer that is no failure of the gateway. */
  async ask(path: string, init: () => RequestInit): Promise<Response> {
    for (;;) {
      const { url } = await this.#program;
      const response = await fetch(url + path, init()).catch(() => undefined);
      if (response && response.status < 500) return response;
      await sleep(100);
    }
  }

  async admin<T>(path: string, body?: object): Promise<{ status: number; body: T }> {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const response = await this.ask(`/admin/v1${path}`, () =>
      body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers },
    );
    return { status: response.status, body: (await response.json()) as T };
  }
}

async function listens(mortal: Mortal): Promise<void> {
  for (let ready = 0; ready < 3; await sleep(50)) {
    const { body } = await mortal.admin<{
      status: { services: { ok: boolean; message: string }[] };
    }>("/status");
    ready = body.status.services.filter(isListening).length;
  }
}

async function rest(mortal: Mortal): Promise<void> {
  const names = ["runs.queued", "runs.running", "deliveries.pending"];
  for (const end = Date.now() + REST_MS; ; await sleep(100)) {
    const { body } = await mortal.admin<{ status: { counts: Record<string, number> } }>("/status");
    if (names.every((name) => body.status.counts[name] === 0)) return;
    if (Date.now() > end)
      throw new Error(`it does not come to rest: ${JSON.stringify(body.status.counts)}`);
  }
}

/**
 * Kills the program once in each hour, in the midst of its work. Not twice: the slow turn of the hour would then be under way
 * alone, as one that may have ended the process.
 */
async function killOften(mortal: Mortal, day: Day, isOver: () => boolean): Promise<void> {
  const random = createRandom(day.size.seed + 1);
  for (let hour = 0; hour < day.size.hours && !isOver(); hour++) {
    const wanted = day.ledger.asked.length + 3 + random.below(8);
    while (day.hour <= hour && day.ledger.asked.length < wanted && !isOver()) await sleep(2);
    await sleep(random.below(40));
    if (day.hour <= hour && !isOver()) await mortal.kill();
    while (day.hour <= hour && !isOver()) await sleep(20);
  }
}

/** Reads which messages have an outcome that no gateway knows: an operator decides about them. */
async function readUnknown(mortal: Mortal, { ledger }: Day, known: Set<string>): Promise<void> {
  const { body } = await mortal.admin<{ deliveries: { id: string }[] }>(
    "/deliveries?status=unknown&limit=100",
  );
  for (const { id } of body.deliveries.filter((one) => !known.has(one.id))) {
    known.add(id);
    type Detail = {
      delivery: {
        channel: string;
        to: string;
        thread: string | null;
        texts: string[];
        createdAt: string;
      };
    };
    const { channel, to, thread, texts, createdAt } = (
      await mortal.admin<Detail>(`/deliveries/${id}`)
    ).body.delivery;
    const place = [channel, to, ...(thread === null ? [] : [thread])].join(" ");
    ledger.unknown.push(
      ...texts.map((text) => ({ place, text, createdAt: Date.parse(createdAt) })),
    );
  }
}

/** Runs the program through a day in the office, and kills it again and again. */
export async function surviveDay(size: Size, store: object = {}) {
  const dir = mkdtempSync(join(tmpdir(), "rouse-office-"));
  let mortal: Mortal | undefined;
  const day = await Day.open({ ...size, isKilled: true }, Date.now, async (make) => {
    const request = make();
    const text = await request.text();
    const response = await mortal?.ask(new URL(request.url).pathname, () => ({
      method: "POST",
      headers: request.headers,
      body: text,
    }));
    if (response?.status !== 200) throw new Error(`slack was answered ${response?.status}`);
  });
  try {
    const gateway = { port: 0, token: TOKEN };
    writeFileSync(
      join(dir, "rouse.json5"),
      JSON.stringify({ ...day.config(), ...store, gateway, hooks: { enabled: false } }),
    );
    const here = (mortal = new Mortal(dir));
    await listens(here);
    const approve = async (code: string): Promise<void> =>
      void (await here.admin(`/pairings/${code}`, { verdict: "approve" }));
    let isOver = false;
    const known = new Set<string>();
    const killing = killOften(here, day, () => isOver);
    const looking = (async () => {
      for (; !isOver; await sleep(500)) await readUnknown(here, day, known);
    })();
    try {
      await day.live(approve, () => rest(here));
    } finally {
      isOver = true;
      await Promise.all([killing, looking]);
    }
    await rest(here);
    await readUnknown(here, day, known);
    return { verdict: judge(day.ledger), day, kills: here.kills };
  } finally {
    await mortal?.end();
    await day.close();
    rmSync(dir, { recursive: true, force: true });
  }
}
