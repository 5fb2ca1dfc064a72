import { DOCUMENT_STATES } from "../../knowledge/types.ts";
import { answer, body, schemaOf } from "../openapi-parts.ts";
import {
  deletedAnswer,
  documentAnswer,
  documentsAnswer,
  formatsAnswer,
  passagesAnswer,
  searchBody,
  uploadBody,
  uploadedAnswer,
  uploadForm,
} from "./knowledge-schema.ts";
import { ALWAYS, failure, list, query } from "./openapi.ts";

const WRONG = { "400": failure("Something in the request is wrong; `param` names the field.") };
const GONE = { "404": failure("There is no such document for this key.") };
const BODY_ERRORS = {
  ...WRONG,
  "408": failure("The body took too long."),
  "413": failure("The request, a file or a field is too large, or there are too many files."),
  "415": failure("The content type is not one of these."),
};
const id = { name: "id", in: "path", required: true, schema: { type: "string" } };
const WAIT = query("wait", "number", "Hold the answer until the end of the work, so many seconds; more than 60 count as 60.");

const LIST = [
  query("limit", "integer", "How many, at most 100; default 20."),
  query("after", "string", "The id after which to go on; newest first."),
  { name: "status", in: "query", schema: { type: "string", enum: DOCUMENT_STATES }, description: "Only those in this state." },
  query("agent_id", "string", "Only those that this agent may search."),
  query("external_id", "string", "Only those of this name of yours."),
];

/** The paths of documents, from the schemas that check their bodies. */
export function knowledgePaths(): Record<string, object> {
  const security = [{ apiKey: [] }];
  const form = { "multipart/form-data": { schema: schemaOf(uploadForm, "input") } };
  const upload = {
    operationId: "uploadDocuments",
    summary: "Upload documents: a form with files, or one document in JSON",
    security,
    requestBody: { required: true, content: { ...form, ...body(uploadBody).content } },
    responses: {
      "200": answer("With `wait`: the work is over. Or: the bytes were there already.", uploadedAnswer),
      "202": answer("On disk, and queued. Several files make a list.", uploadedAnswer),
      ...ALWAYS,
      ...BODY_ERRORS,
      "409": failure("The bytes are there already, and `on_duplicate` is `error`."),
    },
  };
  const search = {
    operationId: "searchDocuments",
    summary: "The passages that fit a question best",
    security,
    requestBody: body(searchBody),
    responses: { "200": answer("Best first.", passagesAnswer), ...ALWAYS, ...BODY_ERRORS },
  };
  const reindex = {
    operationId: "reindexDocument",
    summary: "Read a document anew; what was indexed is found until then",
    security,
    parameters: [id, WAIT],
    responses: {
      "200": answer("With `wait`: the work is over.", documentAnswer),
      "202": answer("Queued.", documentAnswer),
      ...ALWAYS,
      ...WRONG,
      ...GONE,
    },
  };
  return {
    "/v1/knowledge/upload": { post: upload },
    "/v1/knowledge/documents": { get: list("listDocuments", "Documents, newest first", documentsAnswer, { parameters: LIST }, WRONG) },
    "/v1/knowledge/documents/{id}": {
      get: list(
        "showDocument",
        "A document and how far its indexing is",
        documentAnswer,
        { parameters: [id, WAIT] },
        { ...WRONG, ...GONE },
      ),
      delete: list("deleteDocument", "Delete a document with all that was indexed of it", deletedAnswer, { parameters: [id] }, GONE),
    },
    "/v1/knowledge/documents/{id}/reindex": { post: reindex },
    "/v1/knowledge/search": { post: search },
    "/v1/knowledge/formats": { get: list("listFormats", "What can be read here", formatsAnswer) },
  };
}
