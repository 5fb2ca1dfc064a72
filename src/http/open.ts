import type { Context } from "hono";
import { Hono } from "hono";
import { lazy } from "../core/lazy.ts";
import type { Traces } from "../core/http/trace-context.ts";
import { isKnownPath } from "../intake/receive.ts";
import type { Snapshot } from "../intake/types.ts";
import type { HttpContext, OpenContext } from "./context.ts";
import { createErrorHandler, createRejections, failureResponse, notFound } from "./errors.ts";
import { createInTime } from "./first-answers.ts";
import { createHooks, type AnswerHook } from "./hooks.ts";
import { listenHttp } from "./listen.ts";
import { createOperatorRoutes, createTokenCheck } from "./operator.ts";
import { answerChannelRequest, createPluginRoutes, PLUGIN_PATH } from "./plugin-routes.ts";
import { addPublicRoutes } from "./public-routes.ts";
import {
  bodySource,
  getAddress,
  getHeaders,
  getPeer,
  findHostProblem,
  isDisguisedPath,
  ROUTING,
  toResponse,
} from "./transport.ts";

/** Answers a request of the platform API. */
type AnswerPlatform = (c: Context) => Promise<Response>;

const RECEIPT = /^(events|runs)\/([^/]+)$/;
const PRIVATE = { "cache-control": "no-store" };

const isPlatform = (path: string): boolean => path === "/v1" || path.startsWith("/v1/");
/** Routes of the platform API, and of the API that it follows, without `/v1` at the begin: the client's base address is wrong. */
const UNVERSIONED =
  /^\/(?:(?:openai|api|v1)\/(?:[\w-]+\/){0,3})?(?:chat\/completions|completions|responses|models|agents|knowledge|approvals|embeddings|images|audio|files|moderations)(?:\/|$)/i;

/** Creates the handler of receipts. The gateway token reads all, a credential what came in by it; both only in a header. */
function createReceiptHandler(
  deps: HttpContext,
): (c: Context, kind: "events" | "runs", id: string) => Promise<Response> {
  const { hasToken } = createTokenCheck(deps);
  const mayRead = (c: Context, credential: string | undefined): boolean =>
    credential !== undefined && (hasToken(c) || deps.hasCredential(getHeaders(c), credential));
  return async (c, kind, id) => {
    const receipt = await deps.receipts.find(
      kind,
      id,
      deps.snapshot().config.hooks.receipts === "full",
    );
    if (!receipt || !mayRead(c, receipt.credential)) return notFound();
    return c.json(await receipt.render(), 200, PRIVATE);
  };
}

/** The pattern of a hook's address. Paths that no mapping takes are one: they are whatever callers send. */
const getHookRoute = (path: string, snapshot: Snapshot): string =>
  `${snapshot.config.hooks.path}/${isKnownPath(path, snapshot) ? path : ":path"}`;

/** The pattern of an address of the platform API: below its second member are ids. */
function getPlatformRoute(path: string): string {
  const [collection = "", ...rest] = path.split("/").slice(2);
  if (collection === "chat") return path === "/v1/chat/completions" ? path : "/v1/*";
  return `/v1/${/^[a-z]{1,20}$/.test(collection) ? collection : "*"}${rest.length > 0 ? "/*" : ""}`;
}

/** Answers a request within a span. The address is recorded as its pattern: what follows it may be secret. */
function inSpan(
  c: Context,
  route: string,
  traces: Traces,
  answer: () => Promise<Response>,
): Promise<Response> {
  if (!traces.isOn) return answer();
  const { method, url } = c.req;
  const attributes = {
    "http.request.method": method,
    "http.route": route,
    "url.path": route,
    "url.scheme": url.slice(0, url.indexOf(":")),
  };
  const headers = {
    traceparent: c.req.header("traceparent"),
    tracestate: c.req.header("tracestate"),
  };
  return traces.span(
    `${method} ${route}`,
    attributes,
    async (span) => {
      const response = await answer();
      const { status } = response;
      span.set({ "http.response.status_code": status });
      if (status >= 500) span.fail(String(status));
      return response;
    },
    { kind: "server", headers },
  );
}

/** Creates the handler of hooks and of their receipts; undefined for a request of another path. */
function createHookHandler(
  hooks: AnswerHook,
  deps: HttpContext,
): (c: Context) => Promise<Response> | undefined {
  const answerReceipt = createReceiptHandler(deps);
  return (c) => {
    const { path: base } = deps.snapshot().config.hooks;
    if (!c.req.path.startsWith(`${base}/`)) return undefined;
    const path = c.req.path.slice(base.length + 1).replace(/\/+$/, "");
    const receipt = c.req.method === "GET" ? RECEIPT.exec(path) : null;
    if (receipt)
      return deps.inTime(answerReceipt(c, receipt[1] as "events" | "runs", receipt[2] as string));
    const request = {
      method: c.req.method,
      url: getAddress(c),
      path,
      headers: getHeaders(c),
      body: bodySource(c),
      peer: getPeer(c),
    };
    const answer = async (): Promise<Response> => toResponse(await hooks(request));
    return inSpan(c, getHookRoute(path, deps.snapshot()), deps.traces, answer);
  };
}

const isOperatorPath = (path: string): boolean =>
  path === "/metrics" ||
  path === "/readyz" ||
  path === "/console" ||
  /^\/(?:admin|console|plugins)\//.test(path);

/**
 * Builds the HTTP surface. Routes only: what they do is in the folders beside. `main` has everything that senders and callers
 * reach, and the operator's routes where no `adminPort` separates them; `admin` has these alone.
 */
function createApps(hooks: AnswerHook, deps: HttpContext): Record<"main" | "admin", Hono> {
  // Loaded when the first request for it comes.
  const platform = lazy(async () => (await import("./platform/app.ts")).createPlatform(deps));
  const answerPlatform: AnswerPlatform = async (c) =>
    (await platform())(c.req.raw, c.env as object);
  const createApp = (): Hono => {
    const app = new Hono(ROUTING);
    app.onError(createErrorHandler(deps.log));
    app.notFound(notFound);
    app.use("*", async (c, next) => {
      if (isDisguisedPath(c)) return notFound();
      const problem = findHostProblem(c, deps.snapshot());
      return problem ? failureResponse(problem) : next();
    });
    return app;
  };
  const main = createApp();
  const operator = createOperatorRoutes(deps);
  addPublicRoutes(main, deps);
  const pluginRoutes = createPluginRoutes(deps);
  main.all(PLUGIN_PATH, async (c, next) => (await pluginRoutes(c, "anyone")) ?? next());
  operator.all(PLUGIN_PATH, async (c) => (await pluginRoutes(c, "operator")) ?? notFound());
  main.all("/channels/:id{[a-z0-9:-]+}/*", (c) => {
    const id = c.req.param("id");
    const answer = async (): Promise<Response> =>
      (await deps.inTime(answerChannelRequest(c, id, deps))) ?? notFound();
    return inSpan(c, `/channels/${id}/*`, deps.traces, answer);
  });
  const answerHook = createHookHandler(hooks, deps);
  main.all("*", (c) => {
    if (isPlatform(c.req.path))
      return inSpan(c, getPlatformRoute(c.req.path), deps.traces, () => answerPlatform(c));
    // The base path may change while the gateway runs: it is looked up, not routed.
    const answering = answerHook(c);
    if (answering) return answering;
    const separate = deps.snapshot().config.gateway.adminPort !== undefined;
    if (isOperatorPath(c.req.path) && !separate) return operator.fetch(c.req.raw, c.env);
    return UNVERSIONED.test(c.req.path) ? answerPlatform(c) : notFound();
  });
  const admin = createApp();
  admin.get("/", (c) => c.redirect("/console"));
  admin.route("/", operator);
  return { main, admin };
}

/** The answers of a gateway to requests. */
export type HttpParts = ReturnType<typeof openHttp>;

/** Creates what answers requests, and does not listen yet. */
export function openHttp(opened: OpenContext) {
  const { cluster, operatorToken, localToken, unavailable, snapshot } = opened;
  const context: HttpContext = {
    ...opened,
    operatorTokens: [...new Set([operatorToken, localToken])],
    inTime: cluster.responding ? createInTime(cluster.responding, unavailable) : (answer) => answer,
  };
  const hooks = createHooks(context);
  const apps = createApps(hooks, context);
  const rejections = createRejections(context);
  const answer = async (app: Hono, request: Request, env?: object): Promise<Response> => {
    const response = await app.fetch(request, env);
    if (response.status >= 400) rejections.see(request, env, response);
    return response;
  };

  async function listen(app: Hono, port: number): Promise<string> {
    const { gateway, hooks: settings } = snapshot().config;
    const listener = await listenHttp((request, env) => answer(app, request, env), {
      host: gateway.host,
      port,
      bodyTimeoutMs: settings.bodyTimeoutSeconds * 1000,
      keepAliveSeconds: gateway.keepAliveSeconds,
      draining: () => opened.progress.draining,
    });
    opened.swapped.push((loaded) =>
      listener.setKeepAlive(loaded.snapshot.config.gateway.keepAliveSeconds),
    );
    opened.opened.defer(() => listener.close());
    return listener.url;
  }

  return {
    /** Answers a request as the server would. `bindings`: what the server knows of it, as `{ incoming }`. */
    fetch(request: Request, bindings?: object): Promise<Response> {
      const isAdmin = new URL(request.url).pathname.startsWith("/admin/");
      return answer(apps[isAdmin ? "admin" : "main"], request, bindings);
    },
    /** Listens for senders and callers, and for the operator too, unless `gateway.adminPort` separates them. */
    async listen(): Promise<{ url: string; adminUrl: string }> {
      const { port, adminPort } = snapshot().config.gateway;
      const url = await listen(apps.main, port);
      return { url, adminUrl: adminPort === undefined ? url : await listen(apps.admin, adminPort) };
    },
  };
}
