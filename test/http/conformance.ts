import { Ajv2020 } from "ajv/dist/2020.js";
import { expect } from "vitest";
import { openApiDocument } from "../../src/http/openapi/document.ts";

interface Operation {
  responses: Record<string, { content?: Record<string, { schema: object }> }>;
}
type Document = { paths: Record<string, Record<string, Operation>>; components: object };

const document = openApiDocument("/hooks") as Document;
const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addSchema({ $id: "doc", components: document.components });
const compiled = new Map<object, ReturnType<typeof ajv.compile>>();

const braces = (path: string): number => path.match(/\{/g)?.length ?? 0;
/** The most literal path first. */
const PATHS = Object.keys(document.paths)
  .toSorted((a, b) => braces(a) - braces(b) || b.length - a.length)
  .map((path) => ({
    pattern: new RegExp(`^${path.replaceAll("{name}", ".+").replaceAll(/\{\w+\}/g, "[^/]+")}$`),
    operations: document.paths[path],
  }));

/** The operation that a request reaches, by the most literal path that fits. */
const operationOf = (method: string, path: string): Operation | undefined =>
  PATHS.find(({ pattern }) => pattern.test(path))?.operations?.[method.toLowerCase()];

/** Holds an answer to the published document: its status is there, and its body fits the schema. Other routes pass. */
export function expectDocumented(method: string, url: string, status: number, body: unknown): void {
  const path = url.replace(/[?#].*$/, "");
  const operation = operationOf(method, path);
  // An unknown path below `/v1` answers with the error object of the platform API too.
  if (!operation && /^\/v1(?:\/|$)/.test(path))
    return expectSchema(PLATFORM_ERROR, body, `${method} ${path} ${status}`);
  if (!operation) return;
  const { responses } = operation;
  const response = responses[String(status)] ?? responses[`${String(status)[0]}XX`];
  expect(
    response,
    `${method} ${path} answered ${status}, which the document does not have`,
  ).toBeDefined();
  const schema = response?.content?.["application/json"]?.schema;
  if (schema) expectSchema(schema, body, `${method} ${path} ${status}`);
}

const PLATFORM_ERROR = { $ref: "#/components/schemas/PlatformError" };

function expectSchema(schema: object, body: unknown, what: string): void {
  let validate = compiled.get(schema);
  if (!validate) {
    validate = ajv.compile(
      JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"doc#/components')) as object,
    );
    compiled.set(schema, validate);
  }
  if (!validate(body)) expect(validate.errors, `${what}: ${JSON.stringify(body)}`).toEqual([]);
}
