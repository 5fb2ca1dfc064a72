/** Runs the plan of a seed on real gateways, and hands back what the outside saw and what the operator sees at the end. */
import { join } from "node:path";
import { createRandom } from "./random.ts";
import { createLogger } from "../../src/core/log.ts";
import { openGateway, type RunningGateway } from "../../src/gateway/gateway.ts";
import { closeFiles, installDisk, setDisk, type Disk } from "./disk.ts";
import { makeFolder, removeFolder } from "./folders.ts";
import { gatewayConfig, OPERATOR_TOKEN, orderRequest, Outside, type Answer } from "./outside.ts";
import { createPlan, type Fault, type Order, type Plan } from "./plan.ts";
import { installTime, runAs, Time, type Incarnation } from "./time.ts";

/** A run, as the operator sees it. */
export interface RunView {
  id: string;
  status: string;
  waitsFor?: unknown;
  error: { code: string; message: string } | null;
  startedAt: string | null;
  delivery: { status: string } | null;
}

export interface Outcome {
  plan: Plan;
  outside: Outside;
  /** Runs at the end, by id. */
  runs: ReadonlyMap<string, RunView>;
  /** When all runs had an end and all replies were sent; undefined if that did not happen in time. */
  drainedAt: number | undefined;
  /** When the simulation ended. */
  endedAt: number;
  /** Lines of the gateways' logs at level error. */
  errors: string[];
}

/** As hooks' senders: GitHub gives up after ten seconds. */
const GIVE_UP_MS = 10_000;
const ENDED = new Set(["succeeded", "failed", "timed_out", "cancelled"]);
const LOOK_MS = 20_000;
/** Longer than any limit of a plan holds anything back. */
const LIMITED_MS = 4 * 3_600_000;

class Simulation {
  readonly plan: Plan;
  readonly time: Time;
  readonly outside: Outside;
  readonly errors: string[] = [];
  readonly #random;
  readonly #dir: string;
  readonly #disk: Disk = { isFull: false, undoes: false };
  #incarnation: Incarnation | undefined;
  #gateway: RunningGateway | undefined;
  #births = 0;
  readonly #acknowledged = new Map<number, string | undefined>();
  #broken: unknown;

  constructor(plan: Plan) {
    this.plan = plan;
    this.time = new Time(plan.seed);
    this.outside = new Outside(plan, this.time);
    this.outside.onPoison = (of) => {
      if (of === this.#incarnation) this.#kill();
    };
    this.#random = createRandom(plan.seed + 2_000_003);
    this.#dir = makeFolder();
  }

  /** Makes a gateway and starts it; begun again later if it could not, as a service manager does. */
  async #boot(): Promise<void> {
    const name = `gateway ${++this.#births}`;
    const incarnation: Incarnation = {
      name,
      time: this.time,
      alive: true,
      frozenUntil: 0,
      onDeath: new Set(),
    };
    this.#incarnation = incarnation;
    this.#gateway = undefined;
    setDisk(incarnation, this.#disk);
    const log = createLogger("error", {
      write: (line: string) =>
        void this.errors.push(`${(this.time.now / 1000).toFixed(3)} ${name}: ${line.trim()}`),
    });
    try {
      const config = gatewayConfig(this.plan);
      const gateway = await runAs(incarnation, () =>
        openGateway({
          clock: this.time.clock,
          fetch: this.outside.fetch,
          env: {},
          cwd: this.#dir,
          stateDir: join(this.#dir, "state"),
          config,
          plugins: [this.outside.plugin()],
          log,
        }),
      );
      await runAs(incarnation, () => gateway.start({ listen: false, workers: true, watch: false }));
      if (!incarnation.alive) return;
      this.#gateway = gateway;
      this.outside.note(`${name}: is ready`);
    } catch (error) {
      if (!incarnation.alive) return;
      const { issues = [] } = error as { issues?: { transient?: boolean }[] };
      // A simulation that is wrong itself.
      if (issues.some(({ transient }) => !transient)) this.#broken = error;
      this.outside.note(`${name}: could not start: ${String(error)}`);
      this.#kill();
    }
  }

  /** The process is gone: its timers, its memory, its connections. What it has asked the outside for happens. */
  #kill(): void {
    const incarnation = this.#incarnation;
    if (!incarnation?.alive) return;
    incarnation.alive = false;
    this.#gateway = undefined;
    this.outside.note(`${incarnation.name}: dies`);
    this.outside.died(incarnation);
    for (const hear of incarnation.onDeath) hear("cut");
    const wait = 500 + this.#random.next() * 20_000;
    // Not from inside one of its own statements.
    this.time.schedule(1, () => closeFiles(incarnation));
    this.time.schedule(wait, () => void this.#boot());
  }

  #apply(fault: Fault): void {
    const { kind, from, to } = fault;
    const at = (moment: number, run: () => void): void =>
      void this.time.schedule(moment - this.time.now, run);
    at(from, () => this.outside.note(`FAULT ${JSON.stringify(fault)}`));
    if (kind === "kill") at(from, () => this.#kill());
    else if (kind === "kill at commit") {
      const disk = this.#disk;
      let left = fault.nth;
      at(from, () => {
        disk.onCommit = (moment) => {
          if (moment !== fault.moment || left-- > 0) return;
          delete disk.onCommit;
          this.#kill();
        };
      });
      at(to, () => delete disk.onCommit);
    } else if (kind === "suspend")
      at(from, () => {
        if (this.#incarnation) this.#incarnation.frozenUntil = to;
      });
    else if (kind === "disk full") {
      at(from, () => Object.assign(this.#disk, { isFull: true, undoes: fault.undoes }));
      at(to, () => Object.assign(this.#disk, { isFull: false }));
    } else if (kind === "clock") at(from, () => void (this.time.wallAhead += fault.stepMs));
    else if (kind === "slow machine") {
      at(from, () => void (this.time.perReadMs = fault.perReadMs));
      at(to, () => void (this.time.perReadMs = 0));
    }
  }

  /** Asks the gateway: `cut` if it dies before its answer, `late` if the caller has waited long enough, `refused` if none runs. */
  async #ask(request: Request): Promise<Response | "cut" | "late" | "refused"> {
    // This number is not used. It is drawn so that each seed keeps its simulation.
    this.#random.below(1);
    const [gateway, incarnation] = [this.#gateway, this.#incarnation];
    if (!gateway || !incarnation) return "refused";
    const { promise, resolve } = Promise.withResolvers<Response | "cut" | "late">();
    incarnation.onDeath.add(resolve);
    const late = this.time.schedule(GIVE_UP_MS, () => resolve("late"));
    this.time.schedule(
      1,
      () =>
        void runAs(incarnation, () => gateway.fetch(request)).then(
          (response) =>
            incarnation.alive && this.time.schedule(0, () => resolve(response), incarnation),
          () => resolve("cut"),
        ),
      incarnation,
    );
    return promise.finally(() => {
      late.gone = true;
      incarnation.onDeath.delete(resolve);
    });
  }

  /** Sends an order until it is acknowledged, and as often again as the plan says. */
  async #send(order: Order): Promise<void> {
    const at = this.time.now;
    const response = await this.#ask(orderRequest(order));
    const isAnswered = typeof response !== "string";
    const body = isAnswered
      ? ((await response.json().catch(() => undefined)) as { runId?: string } | undefined)
      : undefined;
    const result: Answer["result"] = isAnswered ? response.status : response;
    this.outside.ledgers.answers.push({
      at,
      end: this.time.now,
      order: order.n,
      result,
      runId: body?.runId,
    });
    this.outside.note(
      `sender of order ${order.n} (${order.session}): ${result} ${body?.runId ?? ""}`,
    );
    const isAccepted = isAnswered && response.status >= 200 && response.status < 300;
    if (isAccepted) this.#acknowledged.set(order.n, body?.runId);
    if (isAccepted && order.repeats === 0) return;
    const next = isAccepted ? { ...order, repeats: order.repeats - 1 } : order;
    const wait = (1 + this.#random.next()) * 10_000;
    this.time.schedule(wait, () => void this.#send(next));
  }

  async #read<T>(path: string, init?: RequestInit): Promise<T | undefined> {
    const headers = {
      authorization: `Bearer ${OPERATOR_TOKEN}`,
      "content-type": "application/json",
    };
    const response = await this.#ask(
      new Request(`http://localhost/admin/v1${path}`, { ...init, headers }),
    );
    if (typeof response === "string" || !response.ok) return undefined;
    return (await response.json()) as T;
  }

  /** The person who knows what became of a call: decides about those whose outcome no gateway knows. */
  async #decide(): Promise<void> {
    const open = await this.#read<{ approvals: { id: string; callId: string; runId: string }[] }>(
      "/approvals?state=open",
    );
    for (const { id, callId } of open?.approvals ?? []) {
      const isDone = this.outside.ledgers.effects.some((effect) => effect.callId === callId);
      this.outside.note(`operator: call ${callId} ${isDone ? "was" : "was not"} made`);
      await this.#read(`/approvals/${id}`, {
        method: "POST",
        body: JSON.stringify({ verdict: isDone ? "done" : "repeat" }),
      });
    }
    this.time.schedule(LOOK_MS, () => void this.#decide());
  }

  async #look(): Promise<{ runs: Map<string, RunView>; isDrained: boolean }> {
    const page = await this.#read<{ runs: RunView[] }>("/runs?limit=100");
    const deliveries = await this.#read<{ deliveries: unknown[] }>("/deliveries?status=pending");
    const runs = new Map((page?.runs ?? []).map((run) => [run.id, run]));
    const isDrained =
      this.#acknowledged.size === this.plan.orders.length &&
      deliveries?.deliveries.length === 0 &&
      runs.size > 0 &&
      [...runs.values()].every(({ status }) => ENDED.has(status));
    return { runs, isDrained };
  }

  async run(): Promise<Outcome> {
    const { plan, time } = this;
    void this.#boot();
    for (const fault of plan.faults) this.#apply(fault);
    for (const order of plan.orders) time.schedule(order.at, () => void this.#send(order));
    time.schedule(5_000, () => void this.#decide());
    await time.runUntil(plan.healed, () => this.#broken !== undefined);
    if (this.#broken !== undefined) throw this.#broken;
    this.outside.note("all faults are over");
    const isLimited = plan.orders.some(({ path }) => path === "tight");
    const until = plan.healed + plan.drainMs + (isLimited ? LIMITED_MS : 0);
    let look: { runs: Map<string, RunView>; isDrained: boolean } | undefined;
    while (time.now < until && !look?.isDrained) {
      await time.runUntil(time.now + LOOK_MS);
      look = await time.drive(this.#look(), 30_000);
    }
    const { runs = new Map<string, RunView>(), isDrained } = look ?? {};
    const { outside, errors } = this;
    return {
      plan,
      outside,
      runs,
      drainedAt: isDrained ? time.now : undefined,
      endedAt: time.now,
      errors,
    };
  }

  /** Ends what is left, and removes its files. */
  close(): void {
    if (this.#incarnation) {
      this.#incarnation.alive = false;
      closeFiles(this.#incarnation);
    }
    this.time.close();
    removeFolder(this.#dir);
  }
}

let isWarm = false;

/** Runs a plan from its first moment until all is done that it has begun. The same plan on the same program has the same outcome. */
export async function simulate(plan: Plan): Promise<Outcome> {
  installTime();
  installDisk();
  // Modules that a gateway loads when it first needs them are read from a disk whose time is no virtual one.
  if (!isWarm) {
    isWarm = true;
    await simulate({ ...createPlan(1, "channel away"), drainMs: 600_000 });
  }
  const simulation = new Simulation(plan);
  try {
    return await simulation.run();
  } finally {
    simulation.close();
  }
}
