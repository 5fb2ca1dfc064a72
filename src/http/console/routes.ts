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
import { createConsoleAssets } from "./assets.ts";
import { renderCookie, type createConsoleSessions } from "./sessions.ts";

const OFF =
  'The console is turned off (`gateway.console: "off"`). The command line has all of it: `rouse --help`.\n';

/** Stands before the output of a build that failed, in a clone. */
const NOT_BUILT =
  "The console could not be built. Repair what the lines below name, then load this page again.\n\n";

type ReadAsset = ReturnType<typeof createConsoleAssets>;

interface ConsoleDeps {
  sessions: ReturnType<typeof createConsoleSessions>;
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

function page(c: Context, name: string, status: 200 | 401 | 429 = 200, message = ""): Response {
  return c.body(file(name).replace("{{message}}", message), status, {
    ...PAGE_HEADERS,
    "content-type": getMimeType(name) ?? "text/plain",
    ...(status === 401 ? { "www-authenticate": CHALLENGE } : {}),
  });
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

/** A file of the built page. Its name holds a digest of what is in it, so browsers may keep it; `index.html` is asked for again. */
async function assetPage(c: Context, read: ReadAsset, name: string): Promise<Response> {
  const asset = await read(name, /\bbr\b/.test(c.req.header("accept-encoding") ?? "")).catch(
    String,
  );
  if (typeof asset === "string") return c.text(`${NOT_BUILT}${asset}\n`, 500, PAGE_HEADERS);
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
export function consoleRoutes({ sessions, limiter, isOperator, hasToken, mode }: ConsoleDeps) {
  const app = new Hono();
  const readAsset = createConsoleAssets();
  app.use("*", (c, next) =>
    mode() === "off" ? Promise.resolve(c.text(OFF, 404, PAGE_HEADERS)) : next(),
  );
  app.use("/", compress());
  app.use("/assets/*", compress());
  const mayEnter = (c: Context): boolean => hasToken(c) || sessions.has(c.req.header("cookie"));
  const isSecure = (c: Context): boolean => c.req.header("x-forwarded-proto") === "https";
  app.get("/", (c) =>
    mayEnter(c) ? assetPage(c, readAsset, "index.html") : page(c, "signin.html", 401),
  );
  app.get("/style.css", stylesheet);
  app.get("/assets/:name", (c, next) =>
    mayEnter(c) ? assetPage(c, readAsset, `assets/${c.req.param("name")}`) : next(),
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
