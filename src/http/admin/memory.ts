import { Hono } from "hono";
import { z } from "zod";
import * as memory from "../../operate/people/memory.ts";
import type { AdminDeps } from "../../operate/types.ts";
import { MAX_NOTE_CHARS } from "../../memory/notes.ts";
import { jsonAnswer } from "./answer.ts";
import { jsonBody, limit, query } from "./query.ts";

const NOTE = z.strictObject({ text: z.string().trim().min(1).max(MAX_NOTE_CHARS) });
const LIST = z.strictObject({
  limit,
  agent: z.string().min(1).optional(),
  session: z.string().min(1).optional(),
});
const CLEAR = z.strictObject({ agent: z.string().min(1).optional(), session: z.string().min(1) });

/** `/memory`: what agents have noted about people and rooms. */
export function memoryRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", query(LIST), (c) => jsonAnswer(c, memory.listNotes(deps, c.req.valid("query"))))
    .delete("/", query(CLEAR), (c) => jsonAnswer(c, memory.deleteNotes(deps, c.req.valid("query"))))
    .patch("/:id", jsonBody(NOTE), (c) =>
      jsonAnswer(c, memory.editNote(deps, c.req.param("id"), c.req.valid("json").text)),
    )
    .delete("/:id", (c) => jsonAnswer(c, memory.deleteNote(deps, c.req.param("id"))));
}
