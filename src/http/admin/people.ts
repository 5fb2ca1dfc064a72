import { Hono } from "hono";
import * as people from "../../operate/people/people.ts";
import type { AdminDeps } from "../../operate/types.ts";
import { jsonAnswer } from "./answer.ts";

/** `/people`: people who have linked several channels, and those whom the config names. */
export function peopleRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", (c) => jsonAnswer(c, people.listAddresses(deps)))
    .delete("/:id", (c) => jsonAnswer(c, people.unlinkPerson(deps, c.req.param("id"))));
}
