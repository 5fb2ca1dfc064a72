import type { Context } from "hono";
import { Hono } from "hono";
import { getConsoleMode } from "../config/console-mode.ts";
import type { Traces } from "../core/http/trace-context.ts";
import { isKnownPath } from "../intake/receive.ts";
import type { Snapshot } from "../intake/types.ts";
import { homePage, PAGE_HEADERS, stylesheet } from "./console/routes.ts";
import type { HttpContext } from "./context.ts";
import { createErrorHandler, failureResponse, notFound, toResponse } from "./errors.ts";
import { answerInTime } from "./first-answers.ts";
import type { AnswerHook } from "./hooks.ts";
import { createOperatorRoutes, createTokenCheck, isReady } from "./operator.ts";
import { answerChannelRequest, createPluginRoutes, PLUGIN_PATH } from "./plugin-routes.ts";
import {
  bodySource,
  getAddress,
  getHeaders,
  getPeer,
  findHostProblem,
  isDisguisedPath,
  ROUTING,
} from "./request.ts";

export interface Apps {
  /** Everything that senders and callers reach; the operator's routes too where no `adminPort` separates them. */
  main: Hono;
  /** The operator's routes alone. */
  admin: Hono;
}

/** What answers requests of callers. */
interface Answers {
  /** Answers `{base}/<path>`, for every method. */
  hooks: AnswerHook;
  /** Answers for the platform API. */
  answerPlatform(c: Context): Promise<Response>;
}

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

/** Adds what anyone may ask for: probes, the home page, and the reference of the interface unless `gateway.docs` is false. */
function addPublicRoutes(app: Hono, deps: HttpContext): void {
  app.get("/livez", (c) => c.text("ok"));
  app.get("/readyz", async (c, next) => {
    if (c.req.query("detail") !== undefined) return next();
    if (!isReady(deps)) return c.text("unready", 503);
    // Hooks are taken as ever: a probe must not take the gateway out of service because one sender's grant has ended.
    return c.text(deps.status().services.every((service) => service.ok) ? "ready" : "degraded");
  });
  app.get("/", (c) => {
    const { gateway } = deps.snapshot().config;
    const at = gateway.adminPort === undefined ? "here" : "elsewhere";
    return homePage(c, {
      console: getConsoleMode(gateway) === "off" ? "off" : at,
      docs: gateway.docs,
    });
  });
  app.get("/openapi.json", async (c) => {
    const { gateway, hooks } = deps.snapshot().config;
    if (!gateway.docs) return notFound();
    const { openApiDocument } = await import("./openapi/document.ts");
    return c.json(openApiDocument(hooks.path));
  });
  app.get("/docs", async (c) => {
    const { gateway, hooks } = deps.snapshot().config;
    if (!gateway.docs) return notFound();
    const { docsPage } = await import("./openapi/page.ts");
    const origin = gateway.publicUrl?.replace(/\/$/, "") ?? new URL(c.req.url).origin;
    return c.html(
      docsPage({ base: hooks.path, origin, style: "/docs/style.css" }),
      200,
      PAGE_HEADERS,
    );
  });
  app.get("/docs/style.css", (c) =>
    deps.snapshot().config.gateway.docs ? stylesheet(c) : notFound(),
  );
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

/** Adds what senders and callers reach: requests for channels, the platform API, hooks and their receipts. */
function addCallerRoutes(app: Hono, { hooks, answerPlatform }: Answers, deps: HttpContext): void {
  const { traces } = deps;
  app.all("/channels/:id{[a-z0-9:-]+}/*", (c) => {
    const id = c.req.param("id");
    const answer = (): Promise<Response> =>
      answerInTime(async () => (await answerChannelRequest(c, id, deps)) ?? notFound(), deps);
    return inSpan(c, `/channels/${id}/*`, traces, answer);
  });
  app.all("*", (c, next) => {
    if (!isPlatform(c.req.path)) return next();
    const answer = (): Promise<Response> => answerPlatform(c);
    return inSpan(c, getPlatformRoute(c.req.path), traces, answer);
  });
  const answerReceipt = createReceiptHandler(deps);
  // The base path may change while the gateway runs: it is looked up, not routed.
  app.all("*", (c, next) => {
    const { path: base } = deps.snapshot().config.hooks;
    if (!c.req.path.startsWith(`${base}/`)) return next();
    const path = c.req.path.slice(base.length + 1).replace(/\/+$/, "");
    const receipt = c.req.method === "GET" ? RECEIPT.exec(path) : null;
    if (receipt)
      return answerInTime(
        () => answerReceipt(c, receipt[1] as "events" | "runs", receipt[2] as string),
        deps,
      );
    const request = {
      method: c.req.method,
      url: getAddress(c),
      path,
      headers: getHeaders(c),
      body: bodySource(c),
      peer: getPeer(c),
    };
    const answer = async (): Promise<Response> => toResponse(await hooks(request));
    return inSpan(c, getHookRoute(path, deps.snapshot()), traces, answer);
  });
}

const isOperatorPath = (path: string): boolean =>
  path === "/metrics" ||
  path === "/readyz" ||
  path === "/console" ||
  /^\/(?:admin|console|plugins)\//.test(path);

/** Builds the HTTP surface. Routes only: what they do is in the folders beside. */
export function createApps(answers: Answers, deps: HttpContext): Apps {
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
  addCallerRoutes(main, answers, deps);
  main.all("*", (c) => {
    const separate = deps.snapshot().config.gateway.adminPort !== undefined;
    if (isOperatorPath(c.req.path) && !separate) return operator.fetch(c.req.raw, c.env);
    return UNVERSIONED.test(c.req.path) ? answers.answerPlatform(c) : notFound();
  });
  const admin = createApp();
  admin.get("/", (c) =>
    homePage(c, {
      console: getConsoleMode(deps.snapshot().config.gateway) === "off" ? "off" : "here",
      docs: false,
    }),
  );
  admin.route("/", operator);
  return { main, admin };
}
