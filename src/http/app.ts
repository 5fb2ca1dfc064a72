import { join } from "node:path";
import type { Context } from "hono";
import { Hono } from "hono";
import { showReadiness } from "../operate/watch/system.ts";
import type { AdminDeps } from "../operate/types.ts";
import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import { lazy } from "../core/lazy.ts";
import type { Logger } from "../core/log.ts";
import { secretMatcher } from "../core/secret.ts";
import { isLoopback } from "../core/http/address.ts";
import { presentedToken } from "../intake/authenticate.ts";
import { createFailureLimiter, type createSharedCounts } from "../intake/callers.ts";
import {
  answerChannelRequest,
  type ChannelRequestDeps,
  createPluginRoutes,
  PLUGIN_PATH,
  type PluginRouteDeps,
} from "./plugin-routes.ts";
import { VERSION } from "../core/version.ts";
import { createConsoleAssets } from "./console/assets.ts";
import {
  consoleRoutes,
  homePage,
  isSameOrigin,
  PAGE_HEADERS,
  stylesheet,
} from "./console/routes.ts";
import { createConsoleSessions, findSessionProblem } from "./console/sessions.ts";
import { getConsoleMode } from "../config/console-mode.ts";
import { createErrorHandler, failureResponse, notFound, toResponse } from "./errors.ts";
import type { FirstAnswers } from "./first-answers.ts";
import type { AnswerHook } from "./hooks.ts";
import type { Intake } from "../intake/receive.ts";
import type { Receipts } from "../turns/receipts.ts";
import type { Platform } from "./platform/app.ts";
import {
  bodySource,
  getAddress,
  getHeaders,
  getPeer,
  isDisguisedPath,
  resolveCaller,
  ROUTING,
} from "./request.ts";
import type { Snapshot } from "../intake/types.ts";
import type { Workbench } from "../operate/workbench.ts";
import { isKnownPath } from "../intake/receive.ts";
import type { Traces } from "../core/http/trace-context.ts";

export interface AppDeps extends ChannelRequestDeps, PluginRouteDeps {
  admin: AdminDeps;
  workbench: Workbench;
  /** Answers `{base}/<path>`, for every method. */
  hooks: AnswerHook;
  /** Whether a caller shows, in a header, the credential that an event came in by. */
  hasCredential: Intake["hasCredential"];
  /** The platform API, made at its first request. */
  platform(): Promise<Platform>;
  receipts: Receipts;
  clock: Clock;
  log: Logger;
  /** Each of them lets its bearer do all that an operator does. */
  operatorTokens: readonly string[];
  stateDir: string;
  ready(): boolean;
  /** Absent if the store cannot hang. */
  firstAnswers: FirstAnswers | undefined;
  sharedCounts: ReturnType<typeof createSharedCounts>;
  traces: Traces;
}

export interface Apps {
  /** Everything that senders and callers reach; the operator's routes too where no `adminPort` separates them. */
  main: Hono;
  /** The operator's routes alone. */
  admin: Hono;
}

const RECEIPT = /^(events|runs)\/([^/]+)$/;
const NO_TOKEN: Failure = {
  code: "unauthorized",
  message: "send the gateway token as `Authorization: Bearer <token>`",
};
const PRIVATE = { "cache-control": "no-store" };

/** An answer that begins while the store can be asked, or the error that it cannot. */
function inTime(
  answer: () => Promise<Response>,
  { firstAnswers }: Pick<AppDeps, "firstAnswers">,
): Promise<Response> {
  return firstAnswers ? firstAnswers.before(answer()) : answer();
}

const isPlatform = (path: string): boolean => path === "/v1" || path.startsWith("/v1/");
/** Routes of the platform API, and of the API that it follows, without `/v1`: the client's base address lacks it. */
const UNVERSIONED =
  /^\/(?:chat\/completions|completions|responses|models|agents|knowledge|approvals|embeddings|images|audio|files|moderations)(?:\/|$)/;

/** What a browser opens with a session or without any credential. */
const BROWSER_PATH = /^\/(?:console|admin|docs)(?:\/|$)/;

/**
 * Checks the Host header of requests for the operator's pages and the docs: on a loopback bind a page in a browser must
 * not reach them under a name of its own (DNS rebinding). Everything else has its own credential, and a tunnel's name is
 * the normal case there.
 */
function hostProblem(c: Context, snapshot: Snapshot): Failure | undefined {
  if (!BROWSER_PATH.test(c.req.path)) return undefined;
  const { host, publicUrl } = snapshot.config.gateway;
  if (!isLoopback(host)) return undefined;
  const { hostname } = new URL(c.req.url);
  if (isLoopback(hostname) || (publicUrl !== undefined && new URL(publicUrl).hostname === hostname))
    return undefined;
  return {
    code: "address_not_allowed",
    message:
      "the Host header must be a loopback name or gateway.publicUrl's: open this page under one of them, or set gateway.publicUrl",
  };
}

/** Creates the check whether a request carries the gateway token in a header. */
const createTokenCheck =
  (isOperator: (token: string) => boolean) =>
  (c: Context): boolean => {
    const presented = presentedToken({ headers: getHeaders(c), query: {} });
    return presented !== undefined && isOperator(presented.token);
  };

/** The gateway token in a header; for the operator's interface a browser's session will do as well. */
function operatorRoutes(deps: AppDeps): Hono {
  const app = new Hono(ROUTING);
  app.onError(createErrorHandler(deps.log));
  const matches = secretMatcher(deps.operatorTokens);
  const isOperator = (token: string): boolean => matches(token) >= 0;
  const hasToken = createTokenCheck(isOperator);
  const sessions = createConsoleSessions(
    deps.clock,
    join(deps.stateDir, "console-sessions.json"),
    deps.operatorTokens,
  );
  const mode = () => getConsoleMode(deps.snapshot().config.gateway);
  // A page of another site can send the cookie along with a form, but neither this header nor this origin.
  const hasSession = (c: Context): boolean =>
    c.req.path.startsWith("/admin/") &&
    c.req.header("x-rouse-console") !== undefined &&
    isSameOrigin(c) &&
    mode() !== "off" &&
    sessions.has(c.req.header("cookie"));
  /** Why a session may not do what the token may. */
  const sessionProblem = (c: Context): Failure | undefined =>
    hasSession(c)
      ? findSessionProblem(c.req, {
          mode: mode(),
          isProved: sessions.isProved(c.req.header("cookie")),
        })
      : NO_TOKEN;
  app.route(
    "/console",
    consoleRoutes({
      sessions,
      assets: createConsoleAssets(),
      limiter: createFailureLimiter(deps.clock, deps.sharedCounts?.("console")),
      isOperator,
      hasToken,
      mode,
    }),
  );
  app.use("*", async (c, next) => {
    const problem = hasToken(c) ? undefined : sessionProblem(c);
    if (problem) return failureResponse(problem);
    await next();
    c.res.headers.set("cache-control", "no-store");
    // The page offers to load itself again when another version answers.
    c.res.headers.set("x-rouse-version", VERSION);
  });
  app.get("/metrics", async (c) =>
    c.text(await deps.admin.metrics(), 200, {
      "content-type": "text/plain; version=0.0.4; charset=utf-8",
    }),
  );
  const describeOperator = (c: Context): string => {
    const { address } = resolveCaller(getPeer(c), c.req.header("x-forwarded-for"), deps.snapshot());
    return `${hasToken(c) ? "admin API" : "console"} ${address}`;
  };
  const admin = lazy(async () => {
    const { createAdminRoutes } = await import("./admin/app.ts");
    return new Hono(ROUTING).route("/admin/v1", createAdminRoutes(deps.admin, deps.workbench));
  });
  app.all("/admin/v1/*", (c) =>
    inTime(
      async () =>
        (await admin()).fetch(c.req.raw, { ...(c.env as object), operator: describeOperator(c) }),
      deps,
    ),
  );
  app.get("/readyz", async (c) =>
    c.json({ ready: deps.ready(), ...(await showReadiness(deps.admin)) }, deps.ready() ? 200 : 503),
  );
  return app;
}

/** Creates the handler of receipts. The gateway token reads all, a credential what came in by it; both only in a header. */
function createReceiptHandler(
  deps: AppDeps,
): (c: Context, kind: "events" | "runs", id: string) => Promise<Response> {
  const matches = secretMatcher(deps.operatorTokens);
  const hasToken = createTokenCheck((token) => matches(token) >= 0);
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
function addPublicRoutes(app: Hono, deps: AppDeps): void {
  app.get("/livez", (c) => c.text("ok"));
  app.get("/readyz", async (c, next) => {
    if (c.req.query("detail") !== undefined) return next();
    if (!deps.ready()) return c.text("unready", 503);
    // Hooks are taken as ever: a probe must not take the gateway out of service because one sender's grant has ended.
    return c.text(
      deps.admin.status().services.every((service) => service.ok) ? "ready" : "degraded",
    );
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
function addCallerRoutes(
  app: Hono,
  deps: AppDeps,
  answerPlatform: (c: Context) => Promise<Response>,
): void {
  const { traces } = deps;
  app.all("/channels/:id{[a-z0-9:-]+}/*", (c) => {
    const id = c.req.param("id");
    const answer = (): Promise<Response> =>
      inTime(async () => (await answerChannelRequest(c, id, deps)) ?? notFound(), deps);
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
    const { hooks } = deps.snapshot().config;
    if (!c.req.path.startsWith(`${hooks.path}/`)) return next();
    const path = c.req.path.slice(hooks.path.length + 1).replace(/\/+$/, "");
    const receipt = c.req.method === "GET" ? RECEIPT.exec(path) : null;
    if (receipt)
      return inTime(
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
    const answer = async (): Promise<Response> => toResponse(await deps.hooks(request));
    return inSpan(c, getHookRoute(path, deps.snapshot()), traces, answer);
  });
}

const isOperatorPath = (path: string): boolean =>
  path === "/metrics" ||
  path === "/readyz" ||
  path === "/console" ||
  /^\/(?:admin|console|plugins)\//.test(path);

/** Builds the HTTP surface. Routes only: what they do is in the folders beside. */
export function createApps(deps: AppDeps): Apps {
  const createApp = (): Hono => {
    const app = new Hono(ROUTING);
    app.onError(createErrorHandler(deps.log));
    app.notFound(notFound);
    app.use("*", async (c, next) => {
      if (isDisguisedPath(c)) return notFound();
      const problem = hostProblem(c, deps.snapshot());
      return problem ? failureResponse(problem) : next();
    });
    return app;
  };
  const main = createApp();
  const operator = operatorRoutes(deps);
  addPublicRoutes(main, deps);
  const pluginRoutes = createPluginRoutes(deps);
  main.all(PLUGIN_PATH, async (c, next) => (await pluginRoutes(c, "anyone")) ?? next());
  operator.all(PLUGIN_PATH, async (c) => (await pluginRoutes(c, "operator")) ?? notFound());
  const answerPlatform = async (c: Context): Promise<Response> =>
    (await deps.platform()).fetch(c.req.raw, c.env as object);
  addCallerRoutes(main, deps, answerPlatform);
  main.all("*", (c) => {
    const separate = deps.snapshot().config.gateway.adminPort !== undefined;
    if (isOperatorPath(c.req.path) && !separate) return operator.fetch(c.req.raw, c.env);
    return UNVERSIONED.test(c.req.path) ? answerPlatform(c) : notFound();
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
