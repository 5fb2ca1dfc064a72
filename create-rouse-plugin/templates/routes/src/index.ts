import { z } from "zod";
import { definePlugin } from "rouse/plugin";

/** Answers requests below `/plugins/acme`. The gateway checks the operator's token before. */
export default definePlugin({
  id: "acme",
  config: z.strictObject({
    greeting: z.string().min(1).default("Hello").describe("What callers are told."),
  }),
  routes: ({ config }) => ({
    auth: "operator",
    fetch(request) {
      const { pathname } = new URL(request.url);
      if (pathname !== "/plugins/acme/greeting")
        return Response.json({ error: "there is no such path" }, { status: 404 });
      if (request.method !== "GET")
        return Response.json({ error: "use GET" }, { status: 405, headers: { allow: "GET" } });
      return Response.json({ greeting: config.greeting });
    },
  }),
});
