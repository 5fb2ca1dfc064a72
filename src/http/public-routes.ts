import type { Hono } from "hono";
import { getConsoleMode } from "../config/console-mode.ts";
import { PAGE_HEADERS, stylesheet } from "./console/routes.ts";
import type { HttpContext } from "./context.ts";
import { notFound } from "./errors.ts";
import { isReady } from "./operator.ts";

/** Adds what anyone may ask for: probes, and the reference of the interface unless `gateway.docs` is false. */
export function addPublicRoutes(app: Hono, deps: HttpContext): void {
  app.get("/livez", (c) => c.text("ok"));
  app.get("/readyz", async (c, next) => {
    if (c.req.query("detail") !== undefined) return next();
    if (!isReady(deps)) return c.text("unready", 503);
    // Hooks are taken as ever: a probe must not take the gateway out of service because one sender's grant has ended.
    return c.text(deps.status().services.every((service) => service.ok) ? "ready" : "degraded");
  });
  app.get("/", (c) => {
    const { gateway } = deps.snapshot().config;
    if (gateway.adminPort === undefined && getConsoleMode(gateway) !== "off")
      return c.redirect("/console");
    return gateway.docs ? c.redirect("/docs") : notFound();
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
    return c.html(docsPage(hooks.path, "/docs/style.css"), 200, PAGE_HEADERS);
  });
  app.get("/docs/style.css", (c) =>
    deps.snapshot().config.gateway.docs ? stylesheet(c) : notFound(),
  );
}
