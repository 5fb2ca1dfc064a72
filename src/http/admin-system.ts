import { open, rm, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { Hono } from "hono";
import { z } from "zod";
import { maskConfig } from "../config/mask.ts";
import { keepSenderSecret } from "../config/state.ts";
import { RouseError, safeError, type Failure } from "../core/errors.ts";
import type { PathRules } from "../mapping/types.ts";
import { backupKnowledge, type KnowledgeCopy } from "../knowledge/backup.ts";
import { examine } from "./admin-doctor.ts";
import { answer, fail } from "./admin-answer.ts";
import { parseJson, parseQuery } from "./admin-query.ts";
import { testHook } from "./admin-test.ts";
import type { AgentView, PathView, StatusView } from "./admin-types.ts";
import type { Snapshot } from "../intake/types.ts";
import type { AdminDeps } from "./types.ts";

const strings = z.record(z.string(), z.string()).default({});
const testBody = z.strictObject({
  mapping: z.string().optional(),
  path: z.string().optional(),
  method: z.enum(["POST", "GET"]).default("POST"),
  payload: z.unknown().default({}),
  headers: strings,
  query: strings,
});
const candidateQuery = z.strictObject({ path: z.string().min(1) });
const candidateBody = candidateQuery.extend({ id: z.int().positive() });
const noCandidate: Failure = {
  code: "not_found",
  message: "this path has no such secret to accept: `rouse hooks accept <path>` lists those that came since the gateway started",
};
const refusalQuery = z.strictObject({ limit: z.coerce.number().int().min(1).max(1000).default(100) });

function agents({ agents: { list, standard } }: Snapshot): AgentView[] {
  return list.map((agent) => ({
    id: agent.id,
    name: agent.name,
    description: agent.description ?? null,
    model: agent.model,
    thinking: agent.thinking ?? null,
    tools: agent.tools,
    standard: agent.id === standard.id,
  }));
}

function authOf({ auth }: PathRules): PathView["auth"] {
  if (!auth) return "hooks.token";
  if ("token" in auth) return "token";
  return "user" in auth ? "basic" : "signature";
}

function pathView(rules: PathRules): PathView {
  return {
    path: rules.path,
    methods: rules.methods,
    auth: authOf(rules),
    allowIps: rules.allowIps ?? null,
    maxBodyBytes: rules.maxBodyBytes,
  };
}

async function status(deps: AdminDeps): Promise<StatusView> {
  const [counts, turn, delivery] = await Promise.all([deps.store.counts(), deps.queue.waiting("turn"), deps.queue.waiting("delivery")]);
  const waiting = (jobs: { count: number; oldestMs: number }) => ({ count: jobs.count, oldestSeconds: Math.round(jobs.oldestMs / 1000) });
  const now = deps.status();
  return {
    ...now,
    startedAt: new Date(now.startedAt).toISOString(),
    counts,
    waiting: { turn: waiting(turn), delivery: waiting(delivery) },
  };
}

/** Makes the file first, so that no moment passes in which others could read it. */
async function backup(
  deps: AdminDeps,
  file: string,
): Promise<{ ok: true; bytes: number; seconds: number; knowledge?: KnowledgeCopy } | { ok: false; failure: Failure }> {
  if (!isAbsolute(file)) return { ok: false, failure: { code: "usage", message: "file: write an absolute path" } };
  const started = performance.now();
  try {
    await (await open(file, "wx", 0o600)).close();
  } catch (error) {
    const { code } = safeError(error);
    const message =
      code === "EEXIST" ? "file: it is there already; name a new one" : `file: it cannot be made there (${code ?? "unknown"})`;
    return { ok: false, failure: { code: "usage", message } };
  }
  let knowledge: KnowledgeCopy | undefined;
  try {
    await deps.store.backup(file);
    knowledge = await backupKnowledge(deps.status().stateDir, file);
  } catch (error) {
    await rm(file, { force: true });
    if (error instanceof RouseError && error.code === "usage") return { ok: false, failure: { code: "usage", message: error.message } };
    const { code, name } = safeError(error);
    return {
      ok: false,
      failure: { code: "store_unavailable", message: `the copy could not be made (${code ?? name}); is there room for it?` },
    };
  }
  const { size } = await stat(file);
  return { ok: true, bytes: size, seconds: (performance.now() - started) / 1000, ...(knowledge ? { knowledge } : {}) };
}

function readRoutes(app: Hono, deps: AdminDeps): void {
  const snapshot = (): Snapshot => deps.snapshot();
  app.get("/agents", (c) => answer(c, "agents", { agents: agents(snapshot()) }));
  app.get("/plugins", (c) => answer(c, "plugins", { plugins: [...snapshot().plugins] }));
  app.get("/mappings", (c) => {
    const { mappings, config } = snapshot();
    const { path: base, enabled = false } = config.hooks;
    return answer(c, "mappings", { mappings: [...mappings.mappings], paths: mappings.paths.map(pathView), base, enabled });
  });
  app.get("/status", async (c) => answer(c, "status", { status: await status(deps) }));
  app.get("/refusals", (c) => {
    const query = parseQuery(c, refusalQuery);
    if (!query.ok) return fail(c, query.failure);
    const newest = deps.refusals().slice(-query.value.limit).toReversed();
    return answer(c, "refusals", { refusals: newest.map((refusal) => ({ ...refusal, at: new Date(refusal.at).toISOString() })) });
  });
  app.get("/config", (c) => answer(c, "config", { config: maskConfig(snapshot().config) }));
  app.get("/doctor", async (c) => answer(c, "doctor", { checks: await examine(deps) }));
}

/** Everything about the gateway itself. */
export function systemRoutes(deps: AdminDeps): Hono {
  const app = new Hono();
  readRoutes(app, deps);
  app.post("/reload", async (c) => {
    const reloaded = await deps.reload();
    if (reloaded.ok) return answer(c, "reload", { hash: reloaded.hash });
    return fail(c, { code: "config_invalid", message: "the config has problems; the one before it stays in use", issues: reloaded.issues });
  });
  app.post("/store/backup", async (c) => {
    const body = await parseJson(c, z.strictObject({ file: z.string().min(1) }));
    if (!body.ok) return fail(c, body.failure);
    const copied = await backup(deps, body.value.file);
    if (!copied.ok) return fail(c, copied.failure);
    const { ok: _ok, ...made } = copied;
    return answer(c, "backup", { file: body.value.file, ...made });
  });
  app.get("/hooks/secrets", (c) => {
    const query = parseQuery(c, candidateQuery);
    if (!query.ok) return fail(c, query.failure);
    const found = deps.signatures().find(({ path }) => path === query.value.path)?.candidates ?? [];
    return answer(c, "secretCandidates", { candidates: found.map((one) => ({ ...one, at: new Date(one.at).toISOString() })) });
  });
  app.post("/hooks/secrets", async (c) => {
    const body = await parseJson(c, candidateBody);
    if (!body.ok) return fail(c, body.failure);
    const { path, id } = body.value;
    const found = deps
      .signatures()
      .find((state) => state.path === path)
      ?.candidates.find((one) => one.id === id);
    if (!found) return fail(c, noCandidate);
    return answer(c, "secretAccepted", { file: await keepSenderSecret(deps.status().stateDir, path, found.secret), secret: found.secret });
  });
  app.post("/hooks/test", async (c) => {
    const body = await parseJson(c, testBody);
    if (!body.ok) return fail(c, body.failure);
    const tested = await testHook(body.value, deps.snapshot(), deps.clock.now());
    return tested.ok ? answer(c, "test", tested.tested) : fail(c, tested.failure);
  });
  return app;
}
