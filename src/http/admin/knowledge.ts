import { Hono, type MiddlewareHandler } from "hono";
import { PassThrough, type Readable } from "node:stream";
import { z } from "zod";
import { found, given, refuse } from "../../operate/records/operation.ts";
import type { AdminDeps } from "../../operate/types.ts";
import { marksFor } from "../../chat/api-keys.ts";
import { OPERATOR_TENANT } from "../../config/checks.ts";
import { RouseError } from "../../core/errors.ts";
import { DOCUMENT_STATES, ON_DUPLICATE } from "../../knowledge/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { discard, toReadable } from "../transport.ts";
import { jsonBody, limit, ok, query } from "./query.ts";

const name = z.string().min(1);
const tenant = name.default(OPERATOR_TENANT);
const metadata = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]));

const uploadQuery = z.strictObject({
  tenant,
  filename: name,
  /** May come several times. */
  agent: name.optional(),
  title: name.optional(),
  externalId: name.optional(),
  onDuplicate: z.enum(ON_DUPLICATE).optional(),
  metadata: z.string().optional(),
});
const listQuery = z.strictObject({
  tenant,
  limit,
  after: name.optional(),
  status: z.enum(DOCUMENT_STATES).optional(),
  agent: name.optional(),
});
const oneQuery = z.strictObject({ tenant, wait: z.coerce.number().min(0).max(60).default(0) });
const passagesQuery = z.strictObject({
  tenant,
  from: z.coerce.number().int().min(0).optional(),
  limit,
});
const searchBody = z.strictObject({
  tenant,
  text: name,
  agent: name.optional(),
  limit: z.int().min(1).max(1000).optional(),
});

/** Returns what was found by the id of the path. */
const foundDocument = <T>(c: { req: { param(name: "id"): string } }, value: T | undefined): T =>
  found(value, unknownId("document", c.req.param("id")));

function parseMetadata(pairs: string | undefined): z.output<typeof metadata> | undefined {
  if (pairs === undefined) return undefined;
  try {
    return metadata.parse(JSON.parse(pairs));
  } catch {
    refuse("metadata: write an object of flat pairs in JSON");
  }
}

type UploadEnv = { Variables: { source: Readable } };

/** Reads the body of a refused upload to its end, so that its sender sees why. */
const discardRefused: MiddlewareHandler<UploadEnv> = async (c, next) => {
  const source = toReadable(c);
  c.set("source", source);
  await next();
  if (c.error && !(await discard(source))) c.res.headers.set("connection", "close");
};

/**
 * The bytes of a body. What reads them may destroy this stream: if it destroyed the body itself, the message would lose
 * its socket, and the rest of a refused upload could not be read.
 */
function detach(source: Readable): Readable {
  const bytes = new PassThrough();
  source.once("error", (error) => bytes.destroy(error));
  source.once(
    "close",
    () => source.readableEnded || bytes.destroy(new Error("the body was cut off")),
  );
  return source.pipe(bytes);
}

/** Takes the bytes of the body for a document. */
async function upload(
  source: Readable,
  agentIds: readonly string[],
  { agent: _agent, metadata: pairs, ...described }: z.output<typeof uploadQuery>,
  { knowledge, snapshot }: AdminDeps,
) {
  const fields = given({ ...described, metadata: parseMetadata(pairs) });
  try {
    const staged = await knowledge.stageUpload(
      detach(source),
      snapshot().config.platform.knowledge.fileMb * 1e6,
    );
    return await knowledge.add({ ...fields, agentIds, ...staged });
  } catch (error) {
    if (error instanceof RouseError || source.readableEnded) throw error;
    throw new RouseError({ code: "invalid_body", message: "the body was cut off before its end" });
  }
}

/** `/knowledge`: documents of every tenant, for the operator. */
export function knowledgeRoutes(deps: AdminDeps) {
  const { knowledge, keys } = deps;
  /** Limits a query to the documents that an agent may search. */
  const scope = async (agent: string | undefined, of: string) =>
    agent === undefined ? {} : { agentIds: await marksFor([agent], of, keys) };
  return new Hono<UploadEnv>()
    .post("/documents", discardRefused, query(uploadQuery), (c) =>
      ok(c, upload(c.get("source"), c.req.queries("agent") ?? [], c.req.valid("query"), deps)),
    )
    .get("/documents", query(listQuery), async (c) => {
      const { tenant: of, agent, ...rest } = c.req.valid("query");
      return ok(c, knowledge.list(of, { ...given(rest), ...(await scope(agent, of)) }));
    })
    .get("/documents/:id", query(oneQuery), async (c) => {
      const { tenant: of, wait } = c.req.valid("query");
      const now = foundDocument(c, await knowledge.get(of, c.req.param("id")));
      return ok(c, {
        document: wait > 0 ? foundDocument(c, await knowledge.wait(now.id, wait * 1000)) : now,
      });
    })
    .get("/documents/:id/passages", query(passagesQuery), async (c) => {
      const { tenant: of, ...rest } = c.req.valid("query");
      return ok(c, foundDocument(c, await knowledge.passages(of, c.req.param("id"), given(rest))));
    })
    .delete("/documents/:id", query(oneQuery), async (c) => {
      const isGone = await knowledge.remove(c.req.valid("query").tenant, c.req.param("id"));
      foundDocument(c, isGone || undefined);
      return ok(c, {});
    })
    .post("/documents/:id/reindex", query(oneQuery), async (c) =>
      ok(c, {
        document: foundDocument(
          c,
          await knowledge.reindex(c.req.valid("query").tenant, c.req.param("id")),
        ),
      }),
    )
    .post("/search", jsonBody(searchBody), async (c) => {
      const { agent, ...rest } = c.req.valid("json");
      return ok(c, {
        passages: await knowledge.search({ ...given(rest), ...(await scope(agent, rest.tenant)) }),
      });
    });
}
