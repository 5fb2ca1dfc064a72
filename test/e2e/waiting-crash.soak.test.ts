import { afterAll, beforeAll, expect, it } from "vitest";
import { plainText } from "../../src/core/text.ts";
import type { RunRecord } from "../../src/store/types.ts";
import { serve } from "../channels/wire.ts";
import { scale } from "../soak.ts";
import { openStoreIn } from "../store/home.ts";
import { allRuns } from "./fleet-account.ts";
import {
  createProcessWorld,
  pause,
  until,
  type GatewayProcess,
  type ProcessWorld,
} from "./process-world.ts";

const TURNS = 8;
const KILLS = scale(3, 20);
const HOURLY = 4;
const CONCURRENT = 2;
const PATHS = ["narrow", "hourly", "batch", "shadow"] as const;
type Path = (typeof PATHS)[number];

let world: ProcessWorld;
/** Ids of the receipts that arrived, by run. */
const receipts = new Map<string, Set<string>>();
let server: Awaited<ReturnType<typeof serve>>;
/** Turns of the narrow mapping that the model was at work on at the same time, at most. */
let most = 0;
let now = 0;

beforeAll(async () => {
  server = await serve(({ headers, body }) => {
    const { id } = (body as { run: { id: string } }).run;
    receipts.set(id, (receipts.get(id) ?? new Set()).add(String(headers["webhook-id"])));
    return { status: 204 };
  });
  const common = (id: Path) => ({
    id,
    match: { path: id },
    wakeMode: "next-heartbeat",
    deliver: false,
    messageTemplate: `{{ "${id}-" & n & "." }}`,
  });
  const { url } = server;
  const secret = Buffer.alloc(32, 7).toString("base64");
  world = await createProcessWorld({
    gateway: { drainSeconds: 5 },
    hooks: {
      callbackHosts: ["127.0.0.1"],
      mappings: [
        { ...common("narrow"), limits: { concurrent: CONCURRENT }, callback: { url, secret } },
        { ...common("hourly"), limits: { runsPerHour: HOURLY } },
        {
          ...common("batch"),
          messageTemplate: '{{ $join(events.("batch-" & n & "."), " ") }}',
          coalesce: { windowSeconds: 1, maxEvents: 12, key: "{{n % 2}}" },
        },
        { ...common("shadow"), shadow: true },
      ],
    },
  });
  world.provider.answer = async (request) => {
    if (!/narrow-\d+\./.test(String(request.body.messages.at(-1)?.content))) return "done";
    most = Math.max(most, ++now);
    await pause(30);
    now--;
    return "done";
  };
});
afterAll(async () => {
  await world.close();
  await server.close();
});

it("limits, windows, shadow and callbacks survive being killed at any moment", async () => {
  const accepted: Record<Path, { n: number; runId: string }[]> = {
    narrow: [],
    hourly: [],
    batch: [],
    shadow: [],
  };
  let next = 0;
  const send = async (program: GatewayProcess, stopped: () => boolean): Promise<void> => {
    while (!stopped()) {
      const n = next++;
      const path = PATHS[n % PATHS.length] as Path;
      try {
        const { status, body } = await program.post(path, { n });
        expect(status).toBe(path === "shadow" ? 200 : 202);
        accepted[path].push({ n, runId: body.runId ?? "" });
        await pause(8);
      } catch (error) {
        if (error instanceof TypeError) return;
        throw error;
      }
    }
  };
  for (let kill = 0; kill < KILLS; kill++) {
    const program = await world.start();
    // A try that a kill cut off is at work for a moment yet.
    now = 0;
    let over = false;
    const senders = [0, 1].map(() => send(program, () => over));
    const { requests } = world.provider;
    const asked = requests.length;
    await pause(150 + Math.random() * 400);
    // On a busy machine a life lasts until some turns were under way: else most runs would be cut off in all of them.
    for (let looks = 0; looks < 3000 && requests.length < asked + TURNS; looks++) await pause(10);
    await program.kill();
    over = true;
    await Promise.all(senders);
  }

  const last = await world.start();
  const waiting = [...accepted.narrow, ...accepted.batch];
  for (const { runId } of waiting)
    await until(async () => ["succeeded", "failed"].includes((await last.run(runId)).status));
  await until(() => accepted.narrow.every(({ runId }) => receipts.has(runId)));
  expect(await last.stop()).toBe(0);

  const { store } = await openStoreIn(world.dir);
  const runs = await allRuns(store);
  await store.close();
  const of = (path: Path): RunRecord[] => runs.filter((run) => run.mapping === path);
  const said = (path: Path): string[] =>
    of(path).flatMap((run) => plainText(run.spec.input).match(/[a-z]+-\d+(?=\.)/g) ?? []);
  const promised = (path: Path): string[] => accepted[path].map(({ n }) => `${path}-${n}`);

  // Nothing that was acknowledged is lost, and nothing is there twice.
  for (const path of ["narrow", "hourly", "batch"] as const) {
    expect(new Set(said(path)).size).toBe(said(path).length);
    expect(promised(path).filter((text) => !said(path).includes(text))).toEqual([]);
  }
  expect(of("shadow")).toEqual([]);
  // A run that was under way at three kills is given up, visibly. The third time nothing else is under way, so that each of
  // these takes a kill of its own.
  const isGivenUp = (run: RunRecord): boolean =>
    run.status === "failed" && run.error?.code === "crashed";
  const isEnded = (run: RunRecord): boolean => run.status === "succeeded" || isGivenUp(run);
  const unfinished = [...of("narrow"), ...of("batch")].filter((run) => !isEnded(run));
  expect(
    unfinished.map(({ id, status, error, crashCount }) => ({ id, status, error, crashCount })),
  ).toEqual([]);
  const givenUp = runs.filter(isGivenUp).length;
  expect(givenUp).toBeLessThanOrEqual(KILLS / 3);
  // Every event is in the run that its answer named, and windows did collect.
  const byId = new Map(runs.map((run) => [run.id, plainText(run.spec.input)]));
  expect(
    accepted.batch.filter(({ n, runId }) => !byId.get(runId)?.includes(`batch-${n}.`)),
  ).toEqual([]);
  expect(of("batch").length).toBeLessThan(said("batch").length);
  // Limits count on where they were: a crash gives nothing back.
  expect(most).toBeLessThanOrEqual(CONCURRENT);
  expect(of("hourly").filter(isEnded)).toHaveLength(HOURLY);
  expect(of("hourly").filter((run) => run.status === "parked")).toHaveLength(
    of("hourly").length - HOURLY,
  );
  // One receipt a run, under one id however often it was sent.
  expect(accepted.narrow.filter(({ runId }) => receipts.get(runId)?.size !== 1)).toEqual([]);
  console.log(
    `${KILLS} kills: ${accepted.narrow.length} narrow, ${accepted.hourly.length} hourly (${HOURLY} started), ${accepted.batch.length} collected in ${of("batch").length} runs, ${accepted.shadow.length} in shadow, ${givenUp} given up`,
  );
}, 300_000);
