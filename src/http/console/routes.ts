import { readFileSync } from "node:fs";
import { plural } from "../../core/text.ts";
import { Hono, type Context } from "hono";
import { compress } from "hono/compress";
import { getMimeType } from "hono/utils/mime";
import type { FailureLimiter } from "../../intake/authenticate.ts";
import { collectBytes } from "../../intake/body.ts";
import { bodySource, getPeer } from "../transport.ts";
import { failureResponse, notFound } from "../errors.ts";
import type { ConsoleMode } from "../../config/console-mode.ts";
import { createConsoleAssets, type ConsoleAssets } from "./assets.ts";
import { renderCookie, type ConsoleSessions } from "./sessions.ts";

const OFF =
  'The console is turned off (`gateway.console: "off"`). The command line has all of it: `rouse --help`.\n';

export interface ConsoleDeps {
  sessions: ConsoleSessions;
  limiter: FailureLimiter;
  /** Returns true for the gateway token. */
  isOperator(token: string): boolean;
  /** Returns true if the request carries the gateway token in a header. */
  hasToken(c: Context): boolean;
  mode(): ConsoleMode;
}

/** A sign-in form holds the gateway token and nothing else. */
const FORM_LIMITS = { maxBytes: 4096, timeoutMs: 30_000 };

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const file = (name: string): string => readFileSync(new URL(`./${name}`, import.meta.url), "utf8");

/**
 * Headers of every page: no content from other origins, no frame, and no referrer but here. Without one here, browsers would
 * hide the origin of a form too.
 */
export const PAGE_HEADERS = {
  "content-security-policy": POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "same-origin",
  "cache-control": "no-store",
};

/** Browsers ask for no password because of it, as they would for `Basic`. */
const CHALLENGE = 'Bearer realm="rouse"';

function page(
  c: Context,
  name: string,
  status: 200 | 401 | 429 | 500 | 503 = 200,
  message = "",
): Response {
  return c.body(file(name).replace("{{message}}", message), status, {
    ...PAGE_HEADERS,
    "content-type": getMimeType(name) ?? "text/plain",
    ...(status === 401 ? { "www-authenticate": CHALLENGE } : {}),
  });
}

const CONSOLE_AT = {
  here: '<a href="/console">The operator\'s page</a>',
  elsewhere: "The operator's page is at the admin port, under /console.",
  off: "The operator's page is turned off.",
};

/** The page at `/`: where the other pages are. `console`: whether the operator's page is on this port. */
export function homePage(
  c: Context,
  { console, docs }: { console: "here" | "elsewhere" | "off"; docs: boolean },
): Response {
  const operator = CONSOLE_AT[console];
  return page(
    c,
    "home.html",
    200,
    docs ? `${operator} <a href="/docs">The HTTP interface</a>` : operator,
  );
}

/** The one stylesheet of all pages. */
export const stylesheet = (c: Context): Response => page(c, "style.css");

/** A form that another site sends, or a page that it framed, does not count. */
export function isSameOrigin(c: Context): boolean {
  const site = c.req.header("sec-fetch-site");
  if (site !== undefined) return site === "same-origin" || site === "none";
  const origin = c.req.header("origin");
  // Browsers send `null` for a page that hides where it is from.
  return origin === undefined || URL.parse(origin)?.host === c.req.header("host");
}

const escapeHtml = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/** Renders the page that a clone shows while the console is built, or if that failed. */
function unbuiltPage(
  c: Context,
  state: Exclude<ReturnType<ConsoleAssets["prepare"]>, { state: "ready" }>,
): Response {
  const [refresh, message, status] =
    state.state === "building"
      ? [
          '<meta http-equiv="refresh" content="1" />',
          "<p>Building the console from its sources. This takes a few seconds.</p>",
          503 as const,
        ]
      : [
          "",
          `<p>The console could not be built. Repair what the lines below name, then load this page again.</p><pre>${escapeHtml(state.output)}</pre>`,
          500 as const,
        ];
  const text = file("building.html")
    .replace("{{refresh}}", refresh)
    .replace("{{message}}", () => message);
  return c.body(text, status, { ...PAGE_HEADERS, "content-type": "text/html; charset=utf-8" });
}

/** A file of the built page. Its name holds a digest of what is in it, so browsers may keep it; `index.html` is asked for again. */
function assetPage(c: Context, assets: ConsoleAssets, name: string): Response {
  const asset = assets.read(name, /\bbr\b/.test(c.req.header("accept-encoding") ?? ""));
  if (!asset) return notFound();
  const headers: Record<string, string> = {
    ...PAGE_HEADERS,
    "content-type": getMimeType(name) ?? "application/octet-stream",
    vary: "accept-encoding",
  };
  if (name !== "index.html") headers["cache-control"] = "private, max-age=31536000, immutable";
  if (asset.isBrotli) headers["content-encoding"] = "br";
  return c.body(new Uint8Array(asset.bytes), 200, headers);
}

/**
 * The operator's page at `/console`. A browser shows the gateway token once, in a form, and gets a session in a cookie
 * that scripts cannot read and other sites cannot send.
 */
export function consoleRoutes({
  sessions,
  limiter,
  isOperator,
  hasToken,
  mode,
}: ConsoleDeps): Hono {
  const app = new Hono();
  const assets = createConsoleAssets();
  app.use("*", (c, next) =>
    mode() === "off" ? Promise.resolve(c.text(OFF, 404, PAGE_HEADERS)) : next(),
  );
  app.use("/", compress());
  app.use("/assets/*", compress());
  const mayEnter = (c: Context): boolean => hasToken(c) || sessions.has(c.req.header("cookie"));
  const isSecure = (c: Context): boolean => c.req.header("x-forwarded-proto") === "https";
  app.get("/", (c) => {
    if (!mayEnter(c)) return page(c, "signin.html", 401);
    const state = assets.prepare();
    return state.state === "ready" ? assetPage(c, assets, "index.html") : unbuiltPage(c, state);
  });
  app.get("/style.css", stylesheet);
  app.get("/assets/:name", (c, next) =>
    mayEnter(c) ? assetPage(c, assets, `assets/${c.req.param("name")}`) : next(),
  );
  app.post("/session", async (c) => {
    if (!isSameOrigin(c)) return page(c, "signin.html", 401, "Sign in on this page itself.");
    const body = await collectBytes(bodySource(c), c.req.header("content-length"), FORM_LIMITS);
    if (!body.ok) return failureResponse(body.failure, { connection: "close" });
    const address = getPeer(c) ?? "127.0.0.1";
    const form = new URLSearchParams(body.bytes.toString("utf8"));
    if (!isOperator(form.get("token")?.trim() ?? "")) {
      const wait = limiter.failed(address);
      if (wait > 0)
        return page(c, "signin.html", 429, `Too many tries; wait ${plural(wait, "second")}.`);
      return page(c, "signin.html", 401, "That is not the gateway token.");
    }
    limiter.succeeded(address);
    const session = {
      ...PAGE_HEADERS,
      "set-cookie": renderCookie(sessions.open(c.req.header("cookie")), isSecure(c)),
    };
    // The page itself signs in again without leaving what is being written.
    if (c.req.header("x-rouse-console") !== undefined) return c.body(null, 204, session);
    return c.body(null, 303, { ...session, location: "/console" });
  });
  app.post("/session/end", (c) => {
    if (isSameOrigin(c)) sessions.close(c.req.header("cookie"));
    return c.body(null, 303, {
      ...PAGE_HEADERS,
      location: "/console",
      "set-cookie": renderCookie("", isSecure(c)),
    });
  });
  app.all("*", (c) =>
    mayEnter(c)
      ? notFound()
      : failureResponse({ code: "unauthorized", message: "sign in at /console" }),
  );
  return app;
}
