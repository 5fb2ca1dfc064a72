import { Hono, type Context } from "hono";
import { z } from "zod";
import { OPERATOR_TENANT } from "../config/checks.ts";
import { RouseError, type Failure } from "../core/errors.ts";
import { DOCUMENT_STATES, ON_DUPLICATE, type NewDocument } from "../knowledge/types.ts";
import { answer, fail } from "./admin-answer.ts";
import { limit, parseJson, parseQuery } from "./admin-query.ts";
import { marksOf } from "./platform/knowledge-scope.ts";
import { discard, sourceOf } from "./source.ts";
import type { AdminDeps } from "./types.ts";

const name = z.string().min(1);
const tenant = name.default(OPERATOR_TENANT);
const metadata = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]));

const uploadQuery = z.strictObject({
  tenant,
  filename: name,
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
const searchBody = z.strictObject({ tenant, text: name, agent: name.optional(), limit: z.int().min(1).max(1000).optional() });

const GONE: Failure = { code: "not_found", message: "there is no such document" };

/** What is given of an upload beside its bytes. */
function describe(c: Context, query: z.output<typeof uploadQuery>): Omit<NewDocument, "file" | "sha256" | "bytes"> | undefined {
  const { metadata: pairs, agent: _agent, ...rest } = query;
  try {
    const parsed = pairs === undefined ? undefined : metadata.parse(JSON.parse(pairs));
    const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)) as typeof rest;
    const { title, externalId, onDuplicate, ...always } = given;
    return {
      ...always,
      agentIds: c.req.queries("agent") ?? [],
      ...(title ? { title } : {}),
      ...(externalId ? { externalId } : {}),
      ...(onDuplicate ? { onDuplicate } : {}),
      ...(parsed ? { metadata: parsed } : {}),
    };
  } catch {
    return undefined;
  }
}

/** Takes the bytes of the body for a document; a body that is refused is read on, so that its sender sees why. */
async function upload(c: Context, { knowledge, snapshot }: AdminDeps): Promise<Response> {
  const source = sourceOf(c);
  const refuse = async (failure: Failure): Promise<Response> => {
    if (!(await discard(source))) c.header("connection", "close");
    return fail(c, failure);
  };
  const parsed = parseQuery(c, uploadQuery);
  if (!parsed.ok) return refuse(parsed.failure);
  const described = describe(c, parsed.value);
  if (!described) return refuse({ code: "usage", message: "metadata: write an object of flat pairs in JSON" });
  try {
    const staged = await knowledge.stage(source, snapshot().config.platform.knowledge.fileMb * 1e6);
    return answer(c, "documentAdded", await knowledge.add({ ...described, ...staged }));
  } catch (error) {
    if (error instanceof RouseError) return refuse(error);
    if (source.readableEnded) throw error;
    return refuse({ code: "invalid_body", message: "the body was cut off before its end" });
  }
}

/** `/knowledge`: documents of every tenant, for the operator. */
export function knowledgeRoutes(deps: AdminDeps): Hono {
  const { knowledge, keys } = deps;
  const app = new Hono();
  app.post("/documents", (c) => upload(c, deps));
  app.get("/documents", async (c) => {
    const parsed = parseQuery(c, listQuery);
    if (!parsed.ok) return fail(c, parsed.failure);
    const { tenant: of, agent, limit, after, status } = parsed.value;
    const found = await knowledge.list(of, {
      limit,
      ...(after === undefined ? {} : { after }),
      ...(status === undefined ? {} : { status }),
      ...(agent === undefined ? {} : { agentIds: await marksOf([agent], of, keys) }),
    });
    return answer(c, "documents", found);
  });
  app.get("/documents/:id", async (c) => {
    const parsed = parseQuery(c, oneQuery);
    if (!parsed.ok) return fail(c, parsed.failure);
    const found = await knowledge.get(parsed.value.tenant, c.req.param("id"));
    const document = found && parsed.value.wait > 0 ? await knowledge.wait(found.id, parsed.value.wait * 1000) : found;
    return document ? answer(c, "document", { document }) : fail(c, GONE);
  });
  app.delete("/documents/:id", async (c) => {
    const parsed = parseQuery(c, oneQuery);
    if (!parsed.ok) return fail(c, parsed.failure);
    return (await knowledge.remove(parsed.value.tenant, c.req.param("id"))) ? c.json({ ok: true }) : fail(c, GONE);
  });
  app.post("/documents/:id/reindex", async (c) => {
    const parsed = parseQuery(c, oneQuery);
    if (!parsed.ok) return fail(c, parsed.failure);
    const document = await knowledge.reindex(parsed.value.tenant, c.req.param("id"));
    return document ? answer(c, "document", { document }) : fail(c, GONE);
  });
  app.post("/search", async (c) => {
    const parsed = await parseJson(c, searchBody);
    if (!parsed.ok) return fail(c, parsed.failure);
    const { tenant: of, text, agent, limit } = parsed.value;
    const passages = await knowledge.search({
      tenant: of,
      text,
      ...(agent === undefined ? {} : { agentIds: await marksOf([agent], of, keys) }),
      ...(limit === undefined ? {} : { limit }),
    });
    return answer(c, "passages", { passages });
  });
  return app;
}
