import type { Readable } from "node:stream";
import type { Context } from "hono";
import { RouseError, type ErrorCode } from "../../core/errors.ts";
import { parseJson } from "../../core/json.ts";
import {
  isSettled,
  type Access,
  type AddedDocument,
  type NewDocument,
} from "../../knowledge/types.ts";
import { discard, toReadable, UPLOAD_MS } from "../transport.ts";
import type { HttpContext } from "../context.ts";
import {
  badRequest,
  errorObject,
  findProblem,
  toProblem,
  problemResponse,
  type ApiProblem,
} from "./problems.ts";
import { getAccess, getAudience, type ApiKey } from "../../chat/api-keys.ts";
import { checkAgents, toNames, documentView } from "./knowledge-documents.ts";
import { uploadBody, uploadFields, waitMs, type UploadFields } from "./knowledge-schema.ts";
import { check, readCheckedBody, withoutNullish } from "./read.ts";
import { jsonResponse, toList, type PlatformEnv } from "./types.ts";
import { readForm, removeFiles, type UploadedFile } from "./upload-form.ts";

/** Creates places for uploads that are read side by side. @param count the number of places now: it may change. */
function createPlaces(count: () => number) {
  const queue = new Set<() => void>();
  let taken = 0;
  return {
    countWaiting: () => queue.size,
    /** Resolves once there is a place; rejects with `BUSY` if `signal` is aborted before. */
    async take(signal: AbortSignal): Promise<void> {
      if (taken < count()) return void taken++;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const leave = (): void => {
        queue.delete(resolve);
        reject(BUSY);
      };
      queue.add(resolve);
      signal.addEventListener("abort", leave, { once: true });
      await promise;
    },
    /** Gives a place to the first that waits. */
    free(): void {
      const [next] = queue;
      if (!next) return void taken--;
      queue.delete(next);
      next();
    },
  };
}

const FORM = /^multipart\/form-data(?:;|$)/i;

/** The failures of one file that let the other files of an upload be added. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  "duplicate_document",
  "document_shared",
  "external_id_taken",
]);

interface Upload {
  files: UploadedFile[];
  fields: UploadFields;
}
type Outcome = { filename: string } & ({ added: AddedDocument } | { problem: ApiProblem });

const BUSY = new RouseError({
  code: "overloaded",
  message: "too many uploads wait for the ones under way (platform.knowledge.uploads); try again",
  retryAfterSeconds: 2,
});
/** Uploads that wait for a place, and how long one waits. */
const MAX_WAITING = 100;
const MAX_WAIT_MS = 120_000;
const STOPPING = new RouseError({
  code: "draining",
  message: "the gateway is stopping; try again",
  retryAfterSeconds: 5,
});

/** Matches a member of the metadata, as forms write it. */
const MEMBER = /^metadata\[([^\]]*)\]$/;

/** The fields of a form as those of a JSON body. */
function parseFields(pairs: readonly [name: string, value: string][]): UploadFields {
  const last = new Map(pairs);
  const agents = pairs
    .filter(([name]) => name === "agent_id" || name === "agent_ids")
    .map(([, value]) => value);
  const raw: Record<string, unknown> = Object.fromEntries(
    ["title", "external_id", "on_duplicate", "wait"].flatMap((name) =>
      last.get(name) ? [[name, last.get(name)]] : [],
    ),
  );
  const metadata = last.get("metadata");
  const members = [...last].flatMap(([name, value]): [string, string][] => {
    const member = MEMBER.exec(name)?.[1];
    return member === undefined ? [] : [[member, value]];
  });
  try {
    if (metadata) raw["metadata"] = parseJson(metadata);
  } catch {
    throw badRequest("metadata", "metadata: write an object in JSON");
  }
  if (members.length > 0 && raw["metadata"] !== undefined)
    throw badRequest("metadata", "metadata: send either an object in JSON or its members");
  if (members.length > 0) raw["metadata"] = Object.fromEntries(members);
  return check(uploadFields, { ...raw, agent_id: agents.filter((value) => value !== "") });
}

async function readMultipart(
  c: Context<PlatformEnv>,
  source: Readable,
  { snapshot, knowledge }: HttpContext,
): Promise<Upload> {
  const { hooks, platform } = snapshot().config;
  const { requestMb, fileMb, files: most } = platform.knowledge;
  const limits = { requestBytes: requestMb * 1e6, fileBytes: fileMb * 1e6, files: most };
  if (Number(c.req.header("content-length") ?? 0) > limits.requestBytes) {
    const message = `the request has more than ${limits.requestBytes} bytes (platform.knowledge.requestMb)`;
    throw new RouseError({ code: "body_too_large", message });
  }
  const headers = { "content-type": c.req.header("content-type") ?? "" };
  const form = await readForm(source, {
    headers,
    limits,
    timeoutMs: UPLOAD_MS,
    idleMs: hooks.bodyTimeoutSeconds * 1000,
    stageUpload: knowledge.stageUpload,
  });
  const { files } = form;
  try {
    const fields = parseFields(form.fields);
    const named =
      files.length > 1
        ? (["title", "external_id"] as const).find((name) => fields[name])
        : undefined;
    if (files.length === 0)
      throw badRequest(
        "file",
        form.fields.some(([name]) => name === "file")
          ? "file: it came without a file name, and so as text; send a file, as with `curl -F file=@handbook.pdf`"
          : "file: send at least one file",
      );
    if (named) throw badRequest(named, `${named}: names one document; upload the files one by one`);
    return { files, fields };
  } catch (error) {
    await removeFiles(files);
    throw error;
  }
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/;

async function readDocument(
  c: Context<PlatformEnv>,
  { snapshot, knowledge }: HttpContext,
): Promise<Upload> {
  const { platform } = snapshot().config;
  const { body } = await readCheckedBody(c, snapshot(), uploadBody, {
    numbers: "exact",
    takesForms: true,
  });
  const { filename, text, content_base64, ...fields } = body;
  // Several programs write base64 in lines.
  const encoded = content_base64?.replace(/\s+/g, "");
  if (typeof encoded === "string" && !BASE64.test(encoded))
    throw badRequest("content_base64", "content_base64: this is not base64");
  const bytes =
    typeof encoded === "string" ? Buffer.from(encoded, "base64") : Buffer.from(text ?? "");
  const fileBytes = platform.knowledge.fileMb * 1e6;
  if (typeof encoded !== "string" && typeof text !== "string")
    throw badRequest("text", "text: send the document as `text` or as `content_base64`");
  if (bytes.length > fileBytes) {
    const message = `the document has more than ${fileBytes} bytes (platform.knowledge.fileMb)`;
    throw new RouseError({ code: "body_too_large", message });
  }
  const staged = await knowledge.stageBytes(bytes, fileBytes);
  return { files: [{ ...staged, filename }], fields };
}

function newDocument(
  file: UploadedFile,
  fields: UploadFields,
  key: ApiKey,
  access: Access | undefined,
): NewDocument {
  const { title, metadata, external_id: externalId, on_duplicate: onDuplicate } = fields;
  return {
    tenant: key.tenant,
    ...file,
    agentIds: getAudience(key, toNames(fields.agent_id, fields.agent_ids)),
    ...withoutNullish({ title, metadata, externalId, onDuplicate, access }),
  };
}

/** Each file stands alone: one that is refused keeps no other from being added. */
async function addAll(
  { files, fields }: Upload,
  key: ApiKey,
  { knowledge, keys }: HttpContext,
): Promise<Outcome[]> {
  const access = await getAccess(key, keys);
  const outcomes: Outcome[] = [];
  for (const file of files) {
    const { filename } = file;
    try {
      outcomes.push({
        filename,
        added: await knowledge.add(newDocument(file, fields, key, access)),
      });
    } catch (error) {
      if (!(error instanceof RouseError) || !REFUSALS.has(error.code)) {
        await removeFiles(files);
        throw error;
      }
      outcomes.push({
        filename,
        problem: {
          ...toProblem(error),
          param: error.code === "external_id_taken" ? "external_id" : null,
        },
      });
    }
  }
  return outcomes;
}

/** Waits for the ends of the work, so long at most. */
async function settle(
  outcomes: readonly Outcome[],
  ms: number,
  { knowledge }: HttpContext,
): Promise<Outcome[]> {
  if (ms === 0) return [...outcomes];
  return Promise.all(
    outcomes.map(async (outcome) => {
      if (!("added" in outcome)) return outcome;
      const { document, duplicate } = outcome.added;
      return {
        ...outcome,
        added: { document: (await knowledge.wait(document.id, ms)) ?? document, duplicate },
      };
    }),
  );
}

const isOver = (outcome: Outcome): boolean =>
  !("added" in outcome) || outcome.added.duplicate || isSettled(outcome.added.document);

async function answerUpload(
  c: Context<PlatformEnv>,
  outcomes: readonly Outcome[],
  { keys }: HttpContext,
): Promise<Response> {
  const status = outcomes.every(isOver) ? 200 : 202;
  const data = await Promise.all(
    outcomes.map(async (outcome) =>
      "added" in outcome
        ? {
            ...(await documentView(outcome.added.document, keys)),
            duplicate: outcome.added.duplicate,
          }
        : { object: "error" as const, filename: outcome.filename, ...errorObject(outcome.problem) },
    ),
  );
  const [only] = outcomes;
  // None was added: the first one's failure is the answer.
  if (only && "problem" in only && outcomes.every((outcome) => "problem" in outcome))
    return problemResponse(only.problem, c.get("caller").requestId);
  return jsonResponse(c, data.length === 1 ? (data[0] as object) : toList(data), status);
}

/** `POST /v1/knowledge/upload`: a form whose files are streamed to disk, or one document in JSON. */
export function createUploads(deps: HttpContext): (c: Context<PlatformEnv>) => Promise<Response> {
  const places = createPlaces(() => deps.snapshot().config.platform.knowledge.uploads);
  const receive = async (c: Context<PlatformEnv>, source: Readable): Promise<Upload> => {
    if (deps.progress.draining) throw STOPPING;
    if (places.countWaiting() >= MAX_WAITING) throw BUSY;
    // Nothing of the body is read until then: the sender waits with it.
    await places.take(AbortSignal.any([c.req.raw.signal, AbortSignal.timeout(MAX_WAIT_MS)]));
    try {
      if (deps.progress.draining) throw STOPPING;
      const isForm = FORM.test(c.req.header("content-type") ?? "");
      return await (isForm ? readMultipart(c, source, deps) : readDocument(c, deps));
    } finally {
      places.free();
    }
  };
  return async (c) => {
    const { key, requestId } = c.get("caller");
    const source = toReadable(c);
    const upload = await receive(c, source).catch(async (error: unknown) => {
      const problem = findProblem(error, deps.log, { requestId, path: c.req.path });
      const headers = (await discard(source)) ? {} : { connection: "close" };
      return problemResponse(
        { ...problem, headers: { ...problem.headers, ...headers } },
        requestId,
      );
    });
    if (upload instanceof Response) return upload;
    const { files, fields } = upload;
    try {
      checkAgents(toNames(fields.agent_id, fields.agent_ids), key, deps);
    } catch (error) {
      await removeFiles(files);
      throw error;
    }
    const added = await addAll(upload, key, deps);
    return answerUpload(c, await settle(added, waitMs(fields.wait), deps), deps);
  };
}
