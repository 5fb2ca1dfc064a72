import type { Context } from "hono";
import type { Failure } from "../core/errors.ts";
import { lazy } from "../core/lazy.ts";
import type { Snapshot } from "../intake/types.ts";
import { createApps, type Apps } from "./app.ts";
import type { HttpContext } from "./context.ts";
import { createDirectHooks } from "./direct-hooks.ts";
import { createRejections } from "./errors.ts";
import { createFirstAnswers } from "./first-answers.ts";
import { createHooks } from "./hooks.ts";
import { listenHttp } from "./listen.ts";

/** The answers of a gateway to requests. */
export interface HttpParts {
  /** Answers a request as the server would. `bindings`: what the server knows of it, as `{ incoming }`. */
  fetch(request: Request, bindings?: object): Promise<Response>;
  /** Listens for senders and callers, and for the operator too, unless `gateway.adminPort` separates them. */
  listen(): Promise<{ url: string; adminUrl: string }>;
}

interface OpenContext extends Omit<HttpContext, "firstAnswers" | "operatorTokens"> {
  operatorToken: string;
  /** Kept in the state folder: commands on this machine show it, whatever `gateway.token` is and whoever can read it. */
  localToken: string;
  /** The answer of a store that hangs. */
  unavailable: Failure;
  /** Takes listeners for each snapshot that takes another's place. */
  swapped: { push(listener: (loaded: { snapshot: Snapshot }) => void): void };
}

/** Creates what answers requests of callers. */
function createAnswers(context: HttpContext) {
  const { options, progress } = context;
  // Loaded when the first request for it comes.
  const platform = lazy(async () => {
    const { createPlatform } = await import("./platform/app.ts");
    const { startedAt } = progress;
    const draining = (): boolean => progress.draining;
    return createPlatform({ ...context, startedAt, draining, fetch: options.fetch });
  });
  return {
    hooks: createHooks(context),
    answerPlatform: async (c: Context): Promise<Response> =>
      (await platform()).fetch(c.req.raw, c.env as object),
  };
}

/** Creates what answers requests, and does not listen yet. */
export function openHttp(opened: OpenContext): HttpParts {
  const { cluster, operatorToken, localToken, unavailable, snapshot, log, traces } = opened;
  const context: HttpContext = {
    ...opened,
    operatorTokens: [...new Set([operatorToken, localToken])],
    firstAnswers: cluster.responding && createFirstAnswers(cluster.responding, unavailable),
  };
  const answers = createAnswers(context);
  const apps = createApps(answers, context);
  const trustedProxies = (): readonly string[] => snapshot().config.gateway.trustedProxies;
  const rejections = createRejections({ log, trustedProxies });
  opened.opened.defer(rejections.close);
  const answer = async (app: Apps["main"], request: Request, env?: object): Promise<Response> =>
    rejections.see(request, env, await app.fetch(request, env));
  // Asked before `answer`, unless traces are collected: they see requests in the apps.
  const direct = traces.isOn
    ? undefined
    : createDirectHooks({ answer: answers.hooks, snapshot, rejections, log });

  async function listen(app: Apps["main"], port: number): Promise<string> {
    const { gateway, hooks } = snapshot().config;
    const listener = await listenHttp((request, env) => answer(app, request, env), {
      host: gateway.host,
      port,
      bodyTimeoutMs: hooks.bodyTimeoutSeconds * 1000,
      keepAliveSeconds: gateway.keepAliveSeconds,
      draining: () => opened.progress.draining,
      direct: app === apps.main ? direct : undefined,
    });
    opened.swapped.push((loaded) =>
      listener.setKeepAlive(loaded.snapshot.config.gateway.keepAliveSeconds),
    );
    opened.opened.defer(() => listener.close());
    return listener.url;
  }

  return {
    fetch(request, bindings) {
      const isAdmin = new URL(request.url).pathname.startsWith("/admin/");
      return answer(apps[isAdmin ? "admin" : "main"], request, bindings);
    },
    async listen() {
      const { port, adminPort } = snapshot().config.gateway;
      const url = await listen(apps.main, port);
      return { url, adminUrl: adminPort === undefined ? url : await listen(apps.admin, adminPort) };
    },
  };
}
