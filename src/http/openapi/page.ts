import { openApiDocument } from "./document.ts";

interface Schema {
  type?: string | string[];
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  $ref?: string;
}
type Media = { content?: Record<string, { schema: Schema }> };
const FORM = "multipart/form-data";
interface Operation {
  summary: string;
  parameters?: { name: string; in: string; required?: boolean; schema: Schema }[];
  requestBody?: Media;
  responses: Record<string, Media & { description: string }>;
}
interface Document {
  info: { title: string; description: string };
  paths: Record<string, Record<string, Operation>>;
}

const ESCAPES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
const escape = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => ESCAPES[character] as string);
const code = (text: string): string => `<code>${escape(text)}</code>`;

function renderType(schema: Schema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map(renderType).join(" | ");
  if (schema.type === "array")
    return `list of ${schema.items ? renderType(schema.items) : "anything"}`;
  return [schema.type ?? "anything"].flat().join(" | ");
}

function fields(schema: Schema): string {
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const defaultText =
      field.default === undefined ? "" : ` Default ${code(JSON.stringify(field.default))}.`;
    const need = schema.required?.includes(name) ? "required" : "";
    return `<tr><td>${code(name)}</td><td>${escape(renderType(field))}</td><td>${need}</td><td>${escape(field.description ?? "")}${defaultText}</td></tr>`;
  });
  return rows.length === 0
    ? ""
    : `<div class="scroll"><table><tr><th>field</th><th>type</th><th></th><th></th></tr>${rows.join("")}</table></div>`;
}

const getSchema = (media: Media | undefined): Schema =>
  media?.content?.["application/json"]?.schema ?? {};
/** The members of an object, or of each of the objects that it may be. */
const shapes = (schema: Schema): Schema[] =>
  (schema.anyOf ?? schema.oneOf ?? [schema]).filter((one) => one.properties !== undefined);

/** The fields of a body; those of a form stand before those of the same in JSON. */
function requestFields(media: Media | undefined): string {
  const form = media?.content?.[FORM]?.schema;
  const inJson = fields(getSchema(media));
  return form ? `<p>As ${code(FORM)}:</p>${fields(form)}<p>In JSON:</p>${inJson}` : inJson;
}

function section(method: string, path: string, operation: Operation): string {
  const parameters = (operation.parameters ?? [])
    .map((one) => `<li>${code(one.name)} in the ${escape(one.in)}</li>`)
    .join("");
  const answers = Object.entries(operation.responses).map(([status, answer]) => {
    const members = status.startsWith("2") ? shapes(getSchema(answer)).map(fields).join("") : "";
    return `<details${status.startsWith("2") ? " open" : ""}><summary><b>${status}</b> ${escape(answer.description)}</summary>${members}</details>`;
  });
  return `<section><h2>${code(`${method.toUpperCase()} ${path}`)}</h2><p>${escape(operation.summary)}</p>
${parameters ? `<ul>${parameters}</ul>` : ""}${requestFields(operation.requestBody)}
${answers.join("")}</section>`;
}

// Not a ready-made viewer: RapiDoc 9.3 (863 kB), OpenAPI Explorer 2.4 (754 kB) and Scalar 1.72 (3.6 MB, and it calls home) all
// need inline styles, which the content policy forbids; the first two show nothing without. This page needs no script at all.

/**
 * The reference page at `/docs`, from the published document: one page without scripts, and nothing from elsewhere.
 * @param base `hooks.path`
 * @param style the address of the stylesheet
 */
export function docsPage(base: string, style: string): string {
  const { info, paths } = openApiDocument(base) as Document;
  const sections = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => section(method, path, operation)),
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(info.title)}: the HTTP interface</title><link rel="stylesheet" href="${escape(style)}"></head>
<body><header><h1>${escape(info.title)}</h1></header><main><p>${escape(info.description)} The same as a document for machines: <a href="/openapi.json">/openapi.json</a>.</p>
<p>Errors are ${code('{ "ok": false, "error": { "code", "message", "issues" }, "requestId" }')}; the message says what to change. Below <code>/v1</code> they are ${code('{ "error": { "message", "type", "param", "code" } }')}.</p>
${sections.join("\n")}</main></body></html>`;
}
