import { rm } from "node:fs/promises";
import { basename } from "node:path";
import type { Readable } from "node:stream";
import { Busboy, type BusboyFileStream, type BusboyHeaders } from "@fastify/busboy";
import { createBodyMeter } from "../../core/http/body.ts";
import { RouseError } from "../../core/errors.ts";
import { plural } from "../../core/text.ts";
import type { StagedFile } from "../../knowledge/upload-staging.ts";
import { badRequest, toProblem, ProblemError, type ApiProblem } from "./problems.ts";

export interface UploadedFile extends StagedFile {
  filename: string;
}

export interface UploadedForm {
  files: UploadedFile[];
  /** The other fields, in their order. */
  fields: [name: string, value: string][];
}

export interface FormOptions {
  headers: BusboyHeaders;
  /** Of the request, of one file, and how many files. */
  limits: { requestBytes: number; fileBytes: number; files: number };
  /** Milliseconds for the whole form, and the longest time without a byte. */
  timeoutMs: number;
  idleMs: number;
  stageUpload(source: Readable, mostBytes: number): Promise<StagedFile>;
}

const FIELDS = 200;
const FIELD_BYTES = 64 * 1024;
const FIELD = "file";

const tooLarge = (message: string, more: Partial<ApiProblem> = {}): ProblemError =>
  new ProblemError({ ...toProblem({ code: "body_too_large", message }), ...more });
const BROKEN = new RouseError({
  code: "invalid_body",
  message: "the form is cut off, or is none: send multipart/form-data as its boundary says",
});
const SLOW = new RouseError({
  code: "body_timeout",
  message:
    "the form did not arrive in time: within 30 minutes, at 1 KB a second or more, never hooks.bodyTimeoutSeconds without a byte",
});

/** The name of a field without what many programs write behind that of a list: `agent_id[]`, `agent_id[0]`. */
const toFieldName = (name: string): string =>
  name.startsWith("metadata[") ? name : name.replace(/\[\d*\]$/, "");

/** Returns whether a name is percent-encoded as a whole, and has letters beyond ASCII. */
const isEncoded = (filename: string): boolean =>
  /^[\w.~%!'()*-]+$/.test(filename) && /%[89a-f]/i.test(filename);

/**
 * The name as the client meant it: browsers and `fetch` write a quote and line breaks of a name as `%22`, `%0D` and `%0A`,
 * and nothing else so. Some programs encode the whole name, as RFC 7578 allows: without a letter beyond ASCII it may as well
 * be a name that has percent signs.
 */
function decodeFileName(filename: string): string {
  if (isEncoded(filename))
    try {
      return basename(decodeURIComponent(filename));
    } catch {
      // It is not UTF-8: percent signs of the name itself.
    }
  return filename.replace(/%(?:22|0d|0a)/gi, (code) => decodeURIComponent(code));
}

export const removeFiles = async (files: readonly StagedFile[]): Promise<void> => {
  await Promise.all(files.map(({ file }) => rm(file, { force: true })));
};

/** The problem that the caller gets if a file could not be written; errors that the caller did not cause are thrown. */
function stagingProblem(error: unknown, { limits }: FormOptions): Error {
  if (error instanceof RouseError && error.code === "body_too_large")
    return tooLarge(`a file has more than ${limits.fileBytes} bytes (platform.knowledge.fileMb)`, {
      param: FIELD,
    });
  const { code } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT" || code === "EIO" || code === "EROFS")
    return new RouseError({
      code: "store_unavailable",
      message: "the upload cannot be kept just now",
      retryAfterSeconds: 30,
    });
  return BROKEN;
}

/** The parser with its limits; undefined if the content type has no boundary. */
function createParser({ headers, limits }: FormOptions): Busboy | undefined {
  try {
    return new Busboy({
      headers,
      limits: {
        files: limits.files,
        fields: FIELDS,
        fieldSize: FIELD_BYTES,
        parts: limits.files + FIELDS,
        headerPairs: 50,
        headerSize: 16_384,
      },
    });
  } catch {
    return undefined;
  }
}

/**
 * Reads a form as it comes: files go to disk, hashed on the way; no file is whole in memory. If the form is
 * rejected, no file is left behind. The caller discards what is left of the source.
 * @throws ProblemError
 */
export function readForm(source: Readable, options: FormOptions): Promise<UploadedForm> {
  const { limits, idleMs, timeoutMs, stageUpload } = options;
  const parser = createParser(options);
  if (!parser) return Promise.reject(BROKEN);
  const fields: UploadedForm["fields"] = [];
  const staging: Promise<UploadedFile>[] = [];
  const streams: BusboyFileStream[] = [];
  return new Promise((resolve, reject) => {
    const finish = async (found?: Error): Promise<void> => {
      for (const stream of streams) if (found) stream.destroy();
      const settled = await Promise.allSettled(staging);
      const files = settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
      const failed = settled.find((one) => one.status === "rejected");
      const problem = found ?? (failed && stagingProblem(failed.reason, options));
      if (!problem) return resolve({ files, fields });
      await removeFiles(files);
      reject(problem);
    };
    let over = false;
    const end = (problem?: Error): void => {
      if (over) return;
      over = true;
      meter.end();
      source.off("data", onData).off("close", onClose).off("error", onClose);
      source.unpipe(parser);
      void finish(problem);
    };
    const meter = createBodyMeter({ maxBytes: limits.requestBytes, timeoutMs, idleMs }, (problem) =>
      end(
        problem === "too_slow"
          ? SLOW
          : tooLarge(
              `the request has more than ${limits.requestBytes} bytes (platform.knowledge.requestMb)`,
            ),
      ),
    );
    const onData = (chunk: Buffer): void => void meter.add(chunk.length);
    const onClose = (): void => {
      if (!source.readableEnded) end(BROKEN);
    };
    parser.on("file", (name, stream, filename, encoding) => {
      // After the end the file is discarded.
      if (over) return void stream.on("error", () => undefined).destroy();
      streams.push(stream);
      stream.on("error", () => undefined);
      if (toFieldName(name) !== FIELD)
        return end(
          badRequest(
            FIELD,
            `send files in the field "${FIELD}", and other fields without a file name`,
          ),
        );
      if (!filename) return end(badRequest(FIELD, `${FIELD}: send a file with its name`));
      if (/^(?:base64|quoted-printable)$/i.test(encoding))
        return end(
          badRequest(
            FIELD,
            `${FIELD}: send its bytes as they are, without Content-Transfer-Encoding`,
          ),
        );
      const staged = stageUpload(stream, limits.fileBytes).then((file) => ({
        ...file,
        filename: decodeFileName(filename),
      }));
      staging.push(staged);
      staged.catch((error: unknown) => end(stagingProblem(error, options)));
    });
    parser.on("field", (name, value, _nameCut, cut) => {
      if (cut) end(tooLarge(`a field has more than ${FIELD_BYTES} bytes`));
      else fields.push([toFieldName(name), value]);
    });
    parser.on("filesLimit", () =>
      end(
        tooLarge(`send at most ${plural(limits.files, "file")} (platform.knowledge.files)`, {
          code: "too_many_files",
        }),
      ),
    );
    parser.on("fieldsLimit", () => end(tooLarge(`send at most ${FIELDS} fields`)));
    parser.on("partsLimit", () => end(tooLarge(`send at most ${FIELDS} fields`)));
    parser.on("error", () => end(BROKEN));
    parser.on("finish", () => end());
    source.on("data", onData).on("close", onClose).on("error", onClose);
    source.pipe(parser);
  });
}
