import { z } from "zod";
import { answers, sends } from "../openapi/operation.ts";
import {
  deleteDocument,
  listDocuments,
  listFormats,
  reindexDocument,
  searchDocuments,
  showDocument,
  showPassage,
} from "./knowledge-documents.ts";
import {
  deletedAnswer,
  documentAnswer,
  documentsAnswer,
  formatsAnswer,
  listQuery,
  passageAnswer,
  passagesAnswer,
  searchBody,
  uploadBody,
  uploadedAnswer,
  uploadForm,
  waitQuery,
} from "./knowledge-schema.ts";
import { defineRoute, problems, type ApiRoutes } from "./types.ts";

const WRONG = problems({ "400": "Something in the request is wrong; `param` names the field." });
const GONE = problems({ "404": "There is no such document for this key." });
const BODY_ERRORS = {
  ...WRONG,
  ...problems({
    "408": "The body took too long.",
    "413": "The request, a file or a field is too large, or there are too many files.",
    "415": "The content type is not one of these.",
  }),
};
const path = z.object({ id: z.string() });
const REINDEX =
  "Read a document again; the previous version stays searchable until the new one is ready";

/** The routes of documents. */
export const KNOWLEDGE_ROUTES: ApiRoutes = {
  "/knowledge/upload": {
    POST: defineRoute(
      "knowledge:write",
      (c, parts) => parts.upload(c),
      [
        "uploadDocuments",
        "Upload documents: a form with files, or one document in JSON",
        uploadedAnswer,
      ],
      {
        requestBody: {
          required: true,
          content: { "multipart/form-data": { schema: uploadForm }, ...sends(uploadBody).content },
        },
        ok: "With `wait`: the work is over. Or: the bytes were there already.",
        responses: {
          "202": answers("On disk, and queued. Several files make a list.", uploadedAnswer),
          ...BODY_ERRORS,
          ...problems({ "409": "The bytes are there already, and `on_duplicate` is `error`." }),
        },
      },
    ),
  },
  "/knowledge/documents": {
    GET: defineRoute(
      "knowledge:read",
      listDocuments,
      ["listDocuments", "Documents, newest first", documentsAnswer],
      {
        requestParams: { query: listQuery },
        responses: WRONG,
      },
    ),
  },
  "/knowledge/documents/:id": {
    GET: defineRoute(
      "knowledge:read",
      showDocument,
      ["showDocument", "A document and how far its indexing is", documentAnswer],
      {
        requestParams: { path, query: waitQuery },
        responses: { ...WRONG, ...GONE },
      },
    ),
    DELETE: defineRoute(
      "knowledge:write",
      deleteDocument,
      ["deleteDocument", "Delete a document with all that was indexed of it", deletedAnswer],
      { requestParams: { path }, responses: GONE },
    ),
  },
  "/knowledge/documents/:id/passages/:n": {
    GET: defineRoute(
      "knowledge:read",
      showPassage,
      ["showPassage", "A passage of a document: what a citation names", passageAnswer],
      {
        requestParams: {
          path: path.extend({
            n: z.string().describe("The number after `#` in a `chunk_id`, from 0."),
          }),
        },
        responses: {
          ...WRONG,
          ...problems({
            "404": "There is no such document for this key, or it has no such passage.",
          }),
        },
      },
    ),
  },
  "/knowledge/documents/:id/reindex": {
    POST: defineRoute(
      "knowledge:write",
      reindexDocument,
      ["reindexDocument", REINDEX, documentAnswer],
      {
        requestParams: { path, query: waitQuery },
        ok: "With `wait`: the work is over.",
        responses: { "202": answers("Queued.", documentAnswer), ...WRONG, ...GONE },
      },
    ),
  },
  "/knowledge/search": {
    POST: defineRoute(
      "knowledge:read",
      searchDocuments,
      ["searchDocuments", "The passages that fit a question best", passagesAnswer],
      {
        requestBody: sends(searchBody),
        ok: "Best first.",
        responses: BODY_ERRORS,
      },
    ),
  },
  "/knowledge/formats": {
    GET: defineRoute("knowledge:read", listFormats, [
      "listFormats",
      "What can be read here",
      formatsAnswer,
    ]),
  },
};
