import type { Context } from "hono";
import { Hono } from "hono";
import { getConsoleMode } from "../config/console-mode.ts";
import type { Failure } from "../core/errors.ts";
import { lazy } from "../core/lazy.ts";
import { secretMatcher } from "../core/secret.ts";
import { VERSION } from "../core/version.ts";
import { createFailureLimiter, presentedToken } from "../intake/authenticate.ts";
import { showReadiness } from "../operate/watch/system.ts";
import { consoleRoutes, isSameOrigin } from "./console/routes.ts";
import { createConsoleSessions, findSessionProblem } from "./console/sessions.ts";
import type { HttpContext } from "./context.ts";
import { createErrorHandler, failureResponse } from "./errors.ts";
import { getCaller, getHeaders, ROUTING } from "./transport.ts";

const NO_TOKEN: Failure = {
  code: "unauthorized",
  message: "send the gateway token as `Authorization: Bearer <token>`",
};

export const isReady = ({ progress, cluster }: HttpContext): boolean =>
  !progress.draining && cluster.reachable();

/** Creates the checks of the gateway token: as text, and as a header of a request. */
export function createTokenCheck({ operatorTokens }: HttpContext) {
  const matches = secretMatcher(operatorTokens);
  const isOperator = (token: string): boolean => matches(token) >= 0;
  const hasToken = (c: Context): boolean => {
    const presented = presentedToken({ headers: getHeaders(c), query: {} });
    return presented !== undefined && isOperator(presented.token);
  };
  return { isOperator, hasToken };
}

/** The gateway token in a header; for the operator's interface a browser's session will do as well. */
export function createOperatorRoutes(deps: HttpContext): Hono {
  const app = new Hono(ROUTING);
  app.onError(createErrorHandler(deps.log));
  const { isOperator, hasToken } = createTokenCheck(deps);
  const sessions = createConsoleSessions(deps.clock);
  const mode = () => getConsoleMode(deps.snapshot().config.gateway);
  // A page of another site can send the cookie along with a form, but neither this header nor this origin.
  const hasSession = (c: Context): boolean =>
    c.req.path.startsWith("/admin/") &&
    c.req.header("x-rouse-console") !== undefined &&
    isSameOrigin(c) &&
    mode() !== "off" &&
    sessions.has(c.req.header("cookie"));
  /** Returns the reason that a session may not do what the token may. */
  const sessionProblem = (c: Context): Failure | undefined =>
    hasSession(c)
      ? findSessionProblem(c.req, {
          mode: mode(),
          isProved: sessions.isProved(c.req.header("cookie")),
        })
      : NO_TOKEN;
  app.get("/console/", (c) => c.redirect("/console", 308));
  app.route(
    "/console",
    consoleRoutes({
      sessions,
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
    c.text(await deps.metrics.render(), 200, {
      "content-type": "text/plain; version=0.0.4; charset=utf-8",
    }),
  );
  const describeOperator = (c: Context): string => {
    const { address } = getCaller(c, deps.snapshot());
    return `${hasToken(c) ? "admin API" : "console"} ${address}`;
  };
  const admin = lazy(async () => {
    const { createAdminRoutes } = await import("./admin/app.ts");
    return new Hono(ROUTING).route("/admin/v1", createAdminRoutes(deps, deps.workbench));
  });
  app.all("/admin/v1/*", async (c) => {
    const routes = await admin();
    const operator = describeOperator(c);
    return deps.inTime(
      Promise.resolve(routes.fetch(c.req.raw, { ...(c.env as object), operator })),
    );
  });
  app.get("/readyz", async (c) =>
    c.json({ ready: isReady(deps), ...(await showReadiness(deps)) }, isReady(deps) ? 200 : 503),
  );
  return app;
}
