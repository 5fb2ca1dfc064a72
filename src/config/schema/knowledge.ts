import { z } from "zod";
import { durationOr, idText } from "./common.ts";

/** Limits of uploads and of the reading of documents, and whether passages are compared by meaning too. */
export const knowledgeSchema = z
  .strictObject({
    requestMb: z
      .int()
      .positive()
      .default(200)
      .describe("Size of one upload request, in megabytes."),
    fileMb: z.int().positive().default(50).describe("Size of one file, in megabytes."),
    files: z.int().positive().default(20).describe("Files of one upload request."),
    uploads: z
      .int()
      .positive()
      .default(2)
      .describe("Upload requests that are read at the same time; up to 100 more wait."),
    pages: z.int().positive().default(2000).describe("Pages, slides or sheets of one document."),
    textMb: z
      .int()
      .positive()
      .default(50)
      .describe("Text that one document may yield, in millions of characters."),
    unzipRatio: z
      .int()
      .min(2)
      .default(100)
      .describe("Unpacked size of a zipped document, as a multiple."),
    memoryMb: z
      .int()
      .min(128)
      .default(1024)
      .describe("Memory for reading one document, in megabytes."),
    timeout: durationOr("2m").describe("Time for reading one document."),
    workers: z.int().min(1).max(8).default(2).describe("Documents that are read at the same time."),
    embeddings: z
      .strictObject({
        provider: idText.describe(
          "One of `models.providers`, of type `openai` or `openai-compatible`.",
        ),
        model: z.string().min(1).describe("The provider's name of the embedding model."),
      })
      .optional()
      .describe("The model that compares passages by meaning as well."),
    reranker: z
      .strictObject({
        provider: idText.describe(
          "One of `models.providers`, of type `openai-compatible` or `openai`, whose address has `POST /rerank`.",
        ),
        model: z.string().min(1).describe("The provider's name of the reranking model."),
        passages: z
          .int()
          .min(2)
          .max(100)
          .default(50)
          .describe("The number of first passages that it orders."),
        minScore: z
          .number()
          .optional()
          .describe(
            'With `knowledge: "auto"`, leave out passages with a lower score of this model.',
          ),
      })
      .optional()
      .describe("A model that orders the passages of a search."),
  })
  .prefault({})
  .describe("Documents that agents search.");

export type KnowledgeConfig = z.output<typeof knowledgeSchema>;
