import { createRequire } from "node:module";
import type { Issue } from "../core/errors.ts";
import type { Ajv as AjvType, ErrorObject } from "ajv";
import { fileInside, readText, type FileTexts } from "../core/files.ts";
import { parseJson, roundNumbers } from "../core/json.ts";
import { LinearRegExp } from "./regex.ts";

export type Validator = (payload: unknown) => Issue[];

const require = createRequire(import.meta.url);
let instances: { draft07: AjvType; draft2020: AjvType } | undefined;

/** ajv for both drafts: loads nothing remote, tries patterns in linear time. Loaded when the first schema is compiled. */
function load(): { draft07: AjvType; draft2020: AjvType } {
  if (instances) return instances;
  const { Ajv } = require("ajv") as { Ajv: typeof AjvType };
  const { Ajv2020 } = require("ajv/dist/2020.js") as { Ajv2020: typeof AjvType };
  const regExp = Object.assign(
    (pattern: string, flags: string) => new LinearRegExp(pattern, flags) as unknown as RegExp,
    {
      code: "linear",
    },
  );
  const options = {
    allErrors: true,
    strict: false,
    code: { regExp },
    validateFormats: false,
    // By division, 19.99 is no multiple of 0.01.
    multipleOfPrecision: 6,
  };
  instances = { draft07: new Ajv(options), draft2020: new Ajv2020(options) };
  return instances;
}

/** `/items/0/name` as `items[0].name`. */
function dotted(pointer: string): string {
  let path = "";
  for (const part of pointer.split("/").slice(1)) {
    const name = part.replace(/~1/g, "/").replace(/~0/g, "~");
    path += /^\d+$/.test(name) ? `[${name}]` : `${path === "" ? "" : "."}${name}`;
  }
  return path;
}

const MAX_ISSUES = 50;
const MAX_NAME = 80;
const MAX_REASON = 200;

/** Describes an error, at the field that is missing or too many if it is about one. */
function toIssue({
  instancePath,
  message = "is not as the schema says",
  params,
}: ErrorObject): Issue {
  const { missingProperty, additionalProperty } = params as Record<string, string | undefined>;
  const name = missingProperty ?? additionalProperty;
  if (name === undefined) return { path: dotted(instancePath), message };
  const escaped = name.slice(0, MAX_NAME).replace(/~/g, "~0").replace(/\//g, "~1");
  return {
    path: dotted(`${instancePath}/${escaped}`),
    message: missingProperty === undefined ? "is not in the schema" : "is required",
  };
}

/** Compiles a JSON Schema (draft 2020-12, or draft-07 where `$schema` says so). */
export function compileValidator(
  schema: Record<string, unknown>,
): { ok: true; validate: Validator } | { ok: false; message: string } {
  const { $schema, ...rest } = schema;
  const { draft07, draft2020 } = load();
  const ajv = typeof $schema === "string" && /draft-0[67]/.test($schema) ? draft07 : draft2020;
  try {
    const validate = ajv.compile(rest);
    // An `$id` is a name within this schema: another mapping, or another gateway, may have the same.
    ajv.removeSchema(rest);
    return {
      ok: true,
      validate(payload) {
        if (validate(roundNumbers(payload))) return [];
        return (validate.errors ?? []).slice(0, MAX_ISSUES).map(toIssue);
      },
    };
  } catch (error) {
    const { missingRef, message } = error as Error & { missingRef?: unknown };
    return {
      ok: false,
      message:
        typeof missingRef === "string"
          ? "refers to a schema elsewhere; put it into `$defs`"
          : `is no valid JSON Schema: ${message.slice(0, MAX_REASON)}`,
    };
  }
}

/**
 * Compiles `validate` of a mapping: a schema, or the name of a file of one in the mapping's folder. `file` is that file, if it is
 * there.
 */
export function compileValidate(
  validate: string | object,
  folder: string,
  texts: FileTexts | undefined,
): ReturnType<typeof compileValidator> & { file?: string } {
  if (typeof validate !== "string") return compileValidator(validate as Record<string, unknown>);
  const found = fileInside(folder, validate);
  if (!found.ok) return found;
  const { file } = found;
  try {
    const schema = roundNumbers(parseJson(readText(file, texts)));
    return { ...compileValidator(schema as Record<string, unknown>), file };
  } catch {
    return { ok: false, message: "the file is not valid JSON", file };
  }
}
