import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import { openGateway, type RunningGateway } from "../../src/gateway/gateway.ts";
import { closeFiles, installDisk, setDisk, type Disk } from "../faults/disk.ts";
import { makeFolder, removeFolder } from "../faults/folders.ts";
import { installTime, runAs, Time, type Incarnation } from "../faults/time.ts";
import { DAY, getDue, getExpected, YEAR, type Downtime } from "./year.ts";

const MINUTE = 60_000;
const dir = makeFolder();
const time = new Time(1);
afterAll(() => {
  time.close();
  removeFolder(dir);
});

/** The requests to the model: the schedule and the due time of each call, as the request has them. */
const asked: string[] = [];

/** A model that takes two seconds for an answer. */
const fetchModel: typeof fetch = async (_input, init) => {
  const body = init?.body as string;
  const [, id, due = ""] =
    /started by the schedule \\"([\w-]+)\\", due at (\S+?)\./.exec(body) ?? [];
  asked.push(`${id} ${new Date(due).toISOString()}`);
  await time.clock.sleep(2_000);
  return Response.json({
    id: "c1",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [
      { index: 0, finish_reason: "stop", message: { role: "assistant", content: "Done." } },
    ],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });
};

const config = {
  gateway: { token: "operator-token-0123456789", drainSeconds: 1 },
  hooks: { enabled: false },
  models: {
    providers: {
      alpha: {
        type: "openai-compatible",
        baseUrl: "http://alpha.example/v1",
        apiKey: "k-0123456789",
      },
    },
  },
  agents: {
    defaults: { model: "alpha/m", heartbeat: { every: 0 } },
    list: [
      {
        id: "main",
        schedules: YEAR.map(({ id, config: given }) => ({
          id,
          prompt: "Say something.",
          deliver: false,
          ...given,
        })),
      },
    ],
  },
};

/** Waits for a promise. Modules are loaded in real time, while little virtual time passes. */
async function settled<T>(promise: Promise<T>): Promise<T> {
  let isDone = false;
  void promise.finally(() => (isDone = true)).catch(() => undefined);
  while (!isDone) {
    await time.runUntil(time.now + 5);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return promise;
}

interface Process {
  incarnation: Incarnation;
  gateway: RunningGateway;
  disk: Disk;
}

const errors: string[] = [];

async function boot(name: string): Promise<Process> {
  const incarnation: Incarnation = { name, time, alive: true, frozenUntil: 0, onDeath: new Set() };
  const disk: Disk = { isFull: false, undoes: false };
  setDisk(incarnation, disk);
  const log = createLogger("error", {
    write: (line: string) => void (incarnation.alive && errors.push(`${name}: ${line.trim()}`)),
  });
  const options = {
    clock: time.clock,
    fetch: fetchModel,
    env: {},
    cwd: dir,
    stateDir: join(dir, "state"),
    config,
    log,
  };
  const gateway = await settled(
    runAs(incarnation, async () => {
      const opened = await openGateway(options);
      await opened.start({ listen: false, workers: true, watch: false });
      return opened;
    }),
  );
  return { incarnation, gateway, disk };
}

/** Ends a process as `kill -9` does. */
function kill({ incarnation }: Process): void {
  if (!incarnation.alive) return;
  incarnation.alive = false;
  closeFiles(incarnation);
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
async function admin(here: Process, path: string): Promise<any> {
  const request = new Request(`http://localhost/admin/v1${path}`, {
    headers: { authorization: "Bearer operator-token-0123456789" },
  });
  const response = await settled(runAs(here.incarnation, () => here.gateway.fetch(request)));
  return response.json();
}

/** Days on which no gateway runs, with the hours between which it stops and starts. */
const DOWN_DAYS = [24, 62, 82, 118, 175, 182, 229, 250, 284, 299, 333, 340];

it(
  "schedules: each due time of a year fires once, through kills and downtime",
  { timeout: 240_000 },
  async () => {
    installTime();
    installDisk();
    const start = time.wall;
    const toNow = (wall: number): number => wall - start;
    let here = await boot("gateway 0");
    // The modules that a turn needs are loaded with the first.
    await settled(Promise.all([import("ai"), import("@ai-sdk/openai-compatible")]));
    const born =
      Date.parse(
        (await admin(here, "/schedules")).schedules.find(
          ({ id }: { id: string }) => id === "steady",
        ).next[0],
      ) -
      40 * 60 * MINUTE;
    const end = start + 365 * DAY;
    const downtimes: Downtime[] = DOWN_DAYS.map((day, n) => ({
      from: start + day * DAY - 100 * MINUTE,
      to: start + (day + 1 + (n % 3) * 2) * DAY - 37 * MINUTE,
    }));
    const expected = getExpected(born, end, downtimes);
    const due = getDue(born, end).filter(
      ({ at }) => !downtimes.some(({ from, to }) => at > from && at <= to),
    );
    const moments = [
      ...new Set([...due.map(({ at }) => at), ...downtimes.map(({ to }) => to)]),
    ].toSorted((a, b) => a - b);
    let kills = 0;
    for (const [n, at] of moments.entries()) {
      const down = downtimes.find(({ to }) => to === at);
      if (down) {
        kill(here);
        await time.runUntil(toNow(at));
        here = await boot(`gateway ${n}`);
      } else {
        // Nothing is due until then: the process does nothing meanwhile.
        here.incarnation.frozenUntil = toNow(at) - 15_000;
        await time.runUntil(toNow(at) - 5_000);
        // Each eleventh firing meets a kill: around its commit, or during the turn.
        if (n % 11 === 3) {
          const moment = n % 2 === 0 ? "before" : "after";
          if (n % 3 === 0) time.schedule(6_000, () => kill(here));
          else
            here.disk.onCommit = (now) => {
              if (now === moment) kill(here);
            };
          await time.runUntil(toNow(at) + 10_000);
          kill(here);
          kills++;
          here = await boot(`gateway ${n}`);
        }
      }
      await time.runUntil(Math.max(time.now, toNow(at)) + 40_000);
    }
    await time.runUntil(time.now + 10 * MINUTE);

    const distinct = [...new Set(asked)].toSorted();
    expect(distinct).toEqual(expected.fired);
    expect(distinct.length).toBeGreaterThanOrEqual(350);
    // A call twice is a second attempt of one run that a kill cut off.
    expect(asked.length - distinct.length).toBeLessThanOrEqual(kills);
    const { schedules } = await admin(here, "/schedules");
    for (const { id, skipped, fired } of schedules) {
      expect([id, skipped]).toEqual([id, expected.skipped.get(id)]);
      expect([id, fired]).toEqual([
        id,
        expected.fired.filter((one) => one.startsWith(`${id} `)).length,
      ]);
    }
    expect(kills).toBeGreaterThan(20);
    expect(errors).toEqual([]);
  },
);
