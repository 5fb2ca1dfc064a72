/** Fixes of the program, what it was before each of them, and what shows that: seeds of some faults, or a test. */

/** A seed, which the short form of the soak runs as well. */
export interface SeedCheck {
  /** The faults that it draws from. */
  fault: string;
  seed: number;
}

/** A test, for what no seed reaches. */
export interface TestCheck {
  test: string;
  /** A part of the test's name. */
  only: string;
}

export interface Mutant {
  name: string;
  changes: { file: string; from: string; to: string }[];
  check: SeedCheck | TestCheck;
}

/** A change that a seed on SQLite finds. */
const one = (
  name: string,
  fault: string,
  seed: number,
  ...[file, from, to]: [string, string, string]
): Mutant => ({
  name,
  changes: [{ file, from, to }],
  check: { fault, seed },
});
/** A change that another check finds. */
const by = (
  check: SeedCheck | TestCheck,
  name: string,
  ...[file, from, to]: [string, string, string]
): Mutant => ({
  name,
  changes: [{ file, from, to }],
  check,
});

/** A change that a test finds. */
const inTest = (
  test: string,
  only: string,
  name: string,
  ...change: [string, string, string]
): Mutant => by({ test, only }, name, ...change);

/** Those that make runs wait for their provider, and what can disturb that. */
const WAITS =
  "kill,kill at commit,suspend,slow machine,disk full,provider limits once,hanging provider,slow provider,channel away,channel loses answers,channel hangs";

export const MUTANTS: readonly Mutant[] = [
  one(
    "jobs of one key run beside each other",
    "slow provider",
    1,
    "src/store/sqlite/jobs.ts",
    "first ? this.#readyAt(runAt) : null",
    "this.#readyAt(runAt)",
  ),
  one(
    "jobs that a crash cut off stay held",
    "kill",
    2,
    "src/store/sqlite/jobs.ts",
    "UPDATE jobs SET held = 0,",
    "UPDATE jobs SET held = held,",
  ),
  one(
    "a result is not committed again",
    "disk full",
    5,
    "src/runs/run-kind.ts",
    "if (isOver || !isUnavailable(error)) throw error;",
    "throw error;",
  ),
  one(
    "suspects of a crash start beside others",
    "poison",
    14,
    "src/runs/execute.ts",
    "leave = await deps.quarantine?.enter(current.crashes === MAX_CRASHES - 1, signal);",
    "",
  ),
  {
    name: "work without a delay waits for a wall time",
    changes: [
      {
        file: "src/store/job-line.ts",
        from: "runAt !== undefined && runAt > now && runAt >= FIRST_TIME ? runAt : 0",
        to: "runAt ?? now",
      },
      // Else such times follow the clock, as those of delays do.
      {
        file: "src/store/sqlite/driver.ts",
        from: "if (step < 0) await",
        to: "if (step === Infinity) await",
      },
    ],
    check: { fault: "clock back", seed: 5 },
  },
  one(
    "delays do not follow a clock that is set back",
    "clock back,provider limits once,channel away",
    23,
    "src/store/sqlite/driver.ts",
    "if (step < 0) await",
    "if (step === Infinity) await",
  ),
  by(
    {
      test: "test/store/contract.test.ts",
      only: "a delay that ends while the queue is looked at wakes those who wait",
    },
    "a job that became ready between two looks is lost",
    "src/store/sqlite/signals.ts",
    "const wait = Math.max(0, Math.ceil(next - now()));",
    "const wait = Math.ceil(next - now());\n      if (wait <= 0) return;",
  ),
  one(
    "a breaker never opens",
    "outage",
    4,
    "src/core/breaker.ts",
    "FAILURES_TO_OPEN = 5",
    "FAILURES_TO_OPEN = Infinity",
  ),
  one(
    "Retry-After has no bound",
    "provider limits for a day",
    20,
    "src/core/breaker.ts",
    "Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)",
    "retryAfterMs",
  ),
  one(
    "a run is given up after six tries",
    "partial outage",
    33,
    "src/runs/provider-wait.ts",
    "if (!isAway && failures >= MAX_TRIES)",
    "if (failures >= MAX_TRIES)",
  ),
  one(
    "a run does not look for earlier ones of its session that wait",
    WAITS,
    7,
    "src/runs/provider-wait.ts",
    "steps.length > 0 ? undefined : await queue.findEarlier(job, keys)",
    "steps.length > Infinity ? await queue.findEarlier(job, keys) : undefined",
  ),
  one(
    "a decision counts only where the clock says that it came after the call",
    "clock back,kill,kill at commit",
    5,
    "src/agent/loop.ts",
    'call.state !== "started" && call.startedFor !== approvalId',
    "(call.startedAt ?? 0) <= ((await journal.getDecision(approvalId))?.at ?? Infinity)",
  ),
  one(
    "an answer that was cut fails its run",
    "cut answers",
    2,
    "src/agent/failure.ts",
    "if (isCut(chain)) return NO_ANSWER.cut;",
    'if (isCut(chain)) return { ...NO_ANSWER.cut, code: "provider_error", retryable: false };',
  ),
  one(
    "durations are read from the wall clock",
    "clock ahead,clock back,hanging provider,slow provider",
    4,
    "src/core/clock.ts",
    "Math.floor(clock.monotonic?.() ?? clock.now())",
    "clock.now()",
  ),
  one(
    "starts of runs are not counted for their limits",
    "slow provider,kill",
    14,
    "src/store/sqlite/usage.ts",
    "if (starts > 0)\n",
    "if (starts > Infinity)\n",
  ),
  one(
    "runs under way are not counted for their limits",
    "slow provider,kill",
    5,
    "src/store/sqlite/usage.ts",
    "running + excluded.running",
    "running",
  ),
  by(
    { test: "test/store/contract.test.ts", only: "goes before what was added later" },
    "a job that gets its key back stands behind what was added after it",
    "src/store/sqlite/jobs.ts",
    "(first.isBegun === 1 || first.seq < row.seq)",
    "(first.isBegun === 1 || first.seq !== row.seq)",
  ),
  by(
    { test: "test/store/contract.test.ts", only: "goes before what was added later" },
    "a job that an older job was put before keeps its place in the line",
    "src/store/sqlite/jobs.ts",
    'sql.run("UPDATE jobs SET ready = NULL WHERE seq = ?", first.seq);',
    "",
  ),
  one(
    "a run that a limit has released waits again behind others for its provider",
    "partial outage,outage",
    53,
    "src/runs/provider-wait.ts",
    "{ hasWaited: isReleased, wasParked }",
    "{ wasParked }",
  ),
  by(
    { test: "test/store/sweep-clock.test.ts", only: "rows from the future in SQLite" },
    "rows from the future hold up a sweep",
    "src/store/sweep-plan.ts",
    "else if (!isAhead(at, age.now)) {",
    "else {",
  ),
  by(
    { test: "test/e2e/broken-event.test.ts", only: "sets an event aside" },
    "an event that cannot be expanded stops the intake",
    "src/store/sqlite/broken-events.ts",
    "if (!isEventsFault(error)) throw error;",
    "if (sql) throw error;",
  ),
  inTest(
    "test/store/disk/power-loss-work.soak.test.ts",
    "the event loop syncs nothing",
    "commits wait for the disk on the event loop",
    "src/store/sqlite/driver.ts",
    "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0;",
    "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0;",
  ),
  inTest(
    "test/store/disk/power-loss-work.soak.test.ts",
    "forgets nothing that the outside saw",
    "what is answered has not been synced",
    "src/store/sqlite/driver.ts",
    "sync: () => logFile.sync(),",
    "sync: () => (logFile ? Promise.resolve() : logFile),",
  ),
  {
    name: "messages are sent before it is on disk that they were taken, or are sent",
    changes: [
      {
        file: "src/store/sqlite/driver.ts",
        from: '(kind === "turn" ? group.derive(take) : group.add(take, { many: true }))',
        to: "group.derive(take)",
      },
      {
        file: "src/delivery/deliver.ts",
        from: "if (!isMarked(delivery) || delivery.sendingSince !== undefined) return true;",
        to: "if (isMarked(delivery)) return true;",
      },
    ],
    check: {
      test: "test/store/disk/power-loss-work.soak.test.ts",
      only: "forgets nothing that the outside saw",
    },
  },
  inTest(
    "test/store/usage.test.ts",
    "waits for no other one that is borrowing",
    "who asks for room below a limit waits for a lock",
    "plugins/postgres/usage.ts",
    "FOR NO KEY UPDATE OF budgets SKIP LOCKED",
    "FOR NO KEY UPDATE OF budgets",
  ),
  inTest(
    "test/store/usage.test.ts",
    "is not read for limits that are not set",
    "history is read for limits that are not set",
    "plugins/postgres/usage.ts",
    "${hours ? HOURS : NO_HOURS}",
    "${HOURS}",
  ),
  inTest(
    "test/store/postgres.test.ts",
    "accept, and are heard of, while work that waits",
    "hooks wait for the connections of other work",
    "plugins/postgres/driver.ts",
    "createCommits(`${gateway}+`, db.accepts,",
    "createCommits(`${gateway}+`, db,",
  ),
  inTest(
    "test/store/contract.test.ts",
    "places of limits",
    "what a gateway that is gone has borrowed is not lent again",
    "plugins/postgres/usage.ts",
    "AND EXISTS (SELECT 1 FROM holders WHERE gateway = lent.part AND ${KEEPS_LOANS})",
    "",
  ),
  inTest(
    "test/store/usage.test.ts",
    "has what it has borrowed until its jobs are freed",
    "what a silent gateway has borrowed is lent again while it may still start runs",
    "plugins/postgres/usage.ts",
    "WHERE gateway = lent.part AND ${KEEPS_LOANS})",
    "WHERE gateway = lent.part AND ${ALIVE})",
  ),
  inTest(
    "test/store/contract.test.ts",
    "places of limits",
    "places are not given back",
    "src/store/sqlite/usage.ts",
    "running + excluded.running",
    "max(running, running + excluded.running)",
  ),
  inTest(
    "test/http/limits.test.ts",
    "let a mapping's first run go in its turn",
    "a mapping with many runs starves the others",
    "src/limits/releaser.ts",
    "lanes.toSorted(\n      (a, b) => (served.get(a.mapping) ?? 0) - (served.get(b.mapping) ?? 0),\n    )",
    "lanes.slice()",
  ),
  inTest(
    "test/runs/wait-reason.test.ts",
    "once the forecast is over",
    "a run does not say for which limit it waits",
    "src/runs/wait-reason.ts",
    'return { kind: "limit", scope: parked.scope, limit: parked.limit };',
    'return { kind: "worker" };',
  ),
  inTest(
    "test/runs/provider-outage.test.ts",
    "and still one call at a time tests the provider",
    "many calls at a time test a provider that is away",
    "src/core/breaker.ts",
    "if (isOpen && (entry.probe || now < from))",
    "if (isOpen && now < from)",
  ),
  inTest(
    "test/runs/provider-outage.test.ts",
    "asked again at a moment of its own",
    "runs that were asked to wait come back at the same moment",
    "src/runs/provider-wait.ts",
    "Math.min(result.retryAfterMs, MAX_RETRY_AFTER_MS) * (1 + Math.random() / 10)",
    "Math.min(result.retryAfterMs, MAX_RETRY_AFTER_MS)",
  ),
  inTest(
    "test/runs/provider-outage.test.ts",
    "go on with runs that use another model",
    "a run that waits for its provider holds its session",
    "src/runs/provider-wait.ts",
    ", { key: toParkedKey(of, job.key) });",
    ");",
  ),
  inTest(
    "test/runs/provider-outage.test.ts",
    "delays no other session",
    "one 429 stops all sessions",
    "src/core/breaker.ts",
    'if (outcome === "busy" && beganAt >= entry.loweredAt) {',
    'if (outcome === "busy") entry.failures = FAILURES_TO_OPEN;\n    if (outcome === "busy" && beganAt >= entry.loweredAt) {',
  ),
  inTest(
    "test/runs/provider-outage.test.ts",
    "at more than three calls at a time",
    "a provider that limits its callers is asked by as many again",
    "src/core/breaker.ts",
    "entry.limit = Math.max(1, Math.floor(Math.min(entry.limit, entry.running.size + 1) / 2));",
    "entry.limit = Infinity;",
  ),
  inTest(
    "test/runs/provider-outage.test.ts",
    "for an hour gets each message once",
    "a channel that is away is asked for each message",
    "src/delivery/tries.ts",
    "failed?.size === 1 && !failed.has(jobId);\n  }\n\n  #note",
    "failed !== undefined;\n  }\n\n  #note",
  ),
  inTest(
    "test/e2e/given-up.test.ts",
    "a start of another gateway that came to no end",
    "a start that was given back counts as a crash",
    "src/runs/journal.ts",
    'status === "running" && gateway !== cluster.id && (await isGone(gateway, cluster))',
    'status === "running" && (cluster.shared || (await isGone(gateway, cluster)))',
  ),
  {
    name: "hooks wait for a database that hangs",
    changes: [
      { file: "plugins/postgres/db.ts", from: "ACCEPT_MS = 3000;", to: "ACCEPT_MS = 60_000;" },
      {
        file: "plugins/postgres/lane.ts",
        from: "const SILENT_MS = 3000;",
        to: "const SILENT_MS = 60_000;",
      },
    ],
    check: {
      test: "test/e2e/outage-results.soak.test.ts",
      only: "gets every caller a 503 before senders give up",
    },
  },
  inTest(
    "test/e2e/disk-results.test.ts",
    "a full disk is noticed by a gateway without work",
    "a gateway with a full disk says that it is ready",
    "src/store/sqlite/writable.ts",
    "isWritable: () => isWritable,",
    "isWritable: () => isWritable || !isClosed,",
  ),
  inTest(
    "test/store/clock.test.ts",
    "while the queue is looked at",
    "a job that became ready between two looks is lost on PostgreSQL",
    "plugins/postgres/signals.ts",
    "const due = performance.now() + wait;",
    "if (wait === 0) return;\n      const due = performance.now() + wait;",
  ),
  inTest(
    "test/store/contract.test.ts",
    "looks every 30 seconds",
    "who waits looks again only when called",
    "src/store/listeners.ts",
    "looking ??= setInterval(() => announce(JOB_KINDS), LONGEST_TIMER_MS).unref();",
    "looking ??= undefined;",
  ),
  inTest(
    "test/store/clock.test.ts",
    "a gateway whose clock is set meanwhile",
    "times on PostgreSQL are the gateway's",
    "plugins/postgres/driver.ts",
    "const skew = this.#monotonic() + this.#ahead - this.#clock.now();",
    "const skew = this.#ahead * 0;",
  ),
  inTest(
    "test/store/clock.test.ts",
    "is logged with its size",
    "a step of the clock is passed over in silence",
    "src/core/clock.ts",
    "if (Math.abs(step) < STEP_MS) return 0;",
    "if (Math.abs(step) < Infinity) return 0;",
  ),
  inTest(
    "test/store/contract.test.ts",
    "takes no times from the future",
    "times from the future are kept",
    "src/store/clamp-times.ts",
    "fields[name] > latest + AHEAD_MS",
    "fields[name] > latest * AHEAD_MS",
  ),
  inTest(
    "test/agent/long-session.test.ts",
    "is read from its end",
    "a turn reads all of its session",
    "src/runs/session-history.ts",
    "if (tokens > limits.tokens || turns.length > limits.turns)",
    "if (turns.length > limits.turns * Infinity)",
  ),
  inTest(
    "test/store/contract.test.ts",
    "deletes the oldest turns of long main and channel sessions",
    "main sessions grow without an end",
    "src/store/sqlite/sweep.ts",
    "trimSessions(sql, keep.sessionTurns)",
    "trimSessions(sql, Infinity)",
  ),
  inTest(
    "test/store/lists.test.ts",
    "SQLite: a filter whose count is known to be 0",
    "a filter that finds nothing looks through all rows",
    "src/store/sqlite/reads.ts",
    "counted?.n === 0 && counted.more === 0",
    "counted?.n === -1 && counted.more === 0",
  ),
  inTest(
    "test/store/partitions.test.ts",
    "what is past retention goes with its partition",
    "old rows are deleted one by one",
    "plugins/postgres/partitions.ts",
    "until + SETTLED_MS + keep[KEPT_AS[parent]] <= now",
    "until + SETTLED_MS + keep[KEPT_AS[parent]] <= -now",
  ),
  inTest(
    "test/runs/lost-lease.test.ts",
    "is aborted",
    "a turn goes on whose job another gateway has",
    "src/queue/worker.ts",
    "active.abort.abort(LOST);",
    "",
  ),
  inTest(
    "test/store/postgres.test.ts",
    "are heard of again and again while statements",
    "signs of life wait for what a gateway tidies up",
    "plugins/postgres/membership.ts",
    "await beat();",
    "await beat();\n          await tidy();",
  ),
  inTest(
    "test/runs/provider-outage-gateways.test.ts",
    "as soon as these have an answer",
    "runs wait for a provider that has answered another gateway",
    "src/gateway/workers.ts",
    'cluster.tell("answered", [JSON.stringify([jobId, of])])',
    "void [jobId, of]",
  ),
  inTest(
    "test/store/lease-outage.soak.test.ts",
    "frees no job of another gateway that was cut off too",
    "jobs are freed as soon as the database is back",
    "plugins/postgres/membership.ts",
    "performance.now() - steadySince > LEASE_MS && performance.now() - heardAt <= GAP_MS",
    "true",
  ),
];
