import { z } from "zod";
import {
  durationOr,
  idText,
  optionalField,
  optionalSection,
  positive,
  section,
  text,
  withDefault,
} from "./common.ts";

/** Limits of uploads and of the reading of documents, and whether passages are compared by meaning too. */
export const knowledgeSchema = section("Documents that agents search.", {
  requestMb: withDefault(positive, 200, "Size of one upload request, in megabytes."),
  fileMb: withDefault(positive, 50, "Size of one file, in megabytes."),
  files: withDefault(positive, 20, "Files of one upload request."),
  uploads: withDefault(
    positive,
    2,
    "Upload requests that are read at the same time; up to 100 more wait.",
  ),
  pages: withDefault(positive, 2000, "Pages, slides or sheets of one document."),
  textMb: withDefault(positive, 50, "Text that one document may yield, in millions of characters."),
  unzipRatio: withDefault(
    z.int().min(2),
    100,
    "Unpacked size of a zipped document, as a multiple.",
  ),
  memoryMb: withDefault(z.int().min(128), 1024, "Memory for reading one document, in megabytes."),
  timeout: durationOr("2m").describe("Time for reading one document."),
  workers: withDefault(z.int().min(1).max(8), 2, "Documents that are read at the same time."),
  embeddings: optionalSection("The model that compares passages by meaning as well.", {
    provider: idText.describe(
      "One of `models.providers`, of type `openai` or `openai-compatible`.",
    ),
    model: text.describe("The provider's name of the embedding model."),
  }),
  reranker: optionalSection("A model that orders the passages of a search.", {
    provider: idText.describe(
      "One of `models.providers`, of type `openai-compatible` or `openai`, whose address has `POST /rerank`.",
    ),
    model: text.describe("The provider's name of the reranking model."),
    passages: withDefault(
      z.int().min(2).max(100),
      50,
      "The number of first passages that it orders.",
    ),
    minScore: optionalField(
      z.number(),
      'With `knowledge: "auto"`, leave out passages with a lower score of this model.',
    ),
  }),
});

export type KnowledgeConfig = z.output<typeof knowledgeSchema>;
