import { Hono } from "hono";
import * as schedules from "../../operate/people/schedules.ts";
import type { AdminDeps } from "../../operate/types.ts";
import { jsonAnswer } from "./answer.ts";

/** `/schedules`: when agents start by themselves, their heartbeats among it. */
export function scheduleRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", (c) => jsonAnswer(c, schedules.listSchedules(deps)))
    .get("/:agent/:id", (c) =>
      jsonAnswer(c, schedules.showSchedule(deps, c.req.param("agent"), c.req.param("id"))),
    )
    .delete("/:agent/:id", (c) =>
      jsonAnswer(c, schedules.removeSchedule(deps, c.req.param("agent"), c.req.param("id"))),
    )
    .post("/:agent/:id/run", (c) =>
      jsonAnswer(c, schedules.runSchedule(deps, c.req.param("agent"), c.req.param("id"))),
    )
    .post("/:agent/:id/pause", (c) =>
      jsonAnswer(c, schedules.setPaused(deps, c.req.param("agent"), c.req.param("id"), true)),
    )
    .post("/:agent/:id/resume", (c) =>
      jsonAnswer(c, schedules.setPaused(deps, c.req.param("agent"), c.req.param("id"), false)),
    );
}
