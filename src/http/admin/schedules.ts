import { Hono } from "hono";
import * as schedules from "../../admin/schedules.ts";
import type { AdminDeps } from "../../admin/types.ts";
import { jsonAnswer } from "./answer.ts";

/** `/schedules`: when agents start by themselves, their heartbeats among it. */
export function scheduleRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", async (c) => jsonAnswer(c, await schedules.listSchedules(deps)))
    .get("/:agent/:id", async (c) =>
      jsonAnswer(c, await schedules.showSchedule(deps, c.req.param("agent"), c.req.param("id"))),
    )
    .delete("/:agent/:id", async (c) => {
      await schedules.removeSchedule(deps, c.req.param("agent"), c.req.param("id"));
      return jsonAnswer(c, {});
    })
    .post("/:agent/:id/run", async (c) =>
      jsonAnswer(c, await schedules.runSchedule(deps, c.req.param("agent"), c.req.param("id"))),
    )
    .post("/:agent/:id/pause", async (c) =>
      jsonAnswer(c, await schedules.setPaused(deps, c.req.param("agent"), c.req.param("id"), true)),
    )
    .post("/:agent/:id/resume", async (c) =>
      jsonAnswer(
        c,
        await schedules.setPaused(deps, c.req.param("agent"), c.req.param("id"), false),
      ),
    );
}
