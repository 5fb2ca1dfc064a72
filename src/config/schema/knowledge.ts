import { z } from "zod";
import { durationOr, idText } from "./common.ts";

/** What uploads and the reading of documents may take, and whether passages are compared by meaning too. */
export const knowledgeSchema = z
  .strictObject({
    requestMb: z.int().positive().default(200).describe("Size of one upload request, in megabytes."),
    fileMb: z.int().positive().default(50).describe("Size of one file, in megabytes."),
    files: z.int().positive().default(20).describe("Files of one upload request."),
    uploads: z.int().positive().default(2).describe("Upload requests at the same time."),
    pages: z.int().positive().default(2000).describe("Pages, slides or sheets of one document."),
    textMb: z.int().positive().default(50).describe("Text that one document may yield, in millions of characters."),
    unzipRatio: z.int().min(2).default(100).describe("How many times its size a zipped document may unpack to."),
    memoryMb: z.int().min(128).default(1024).describe("Memory of the process that reads a document, in megabytes."),
    timeout: durationOr("2m").describe("How long the reading of one document may take."),
    workers: z.int().min(1).max(8).default(2).describe("Documents that are read at the same time."),
    embeddings: z
      .strictObject({
        provider: idText.describe("One of `models.providers`, of type `openai` or `openai-compatible`."),
        model: z.string().min(1).describe("The provider's name of the embedding model."),
      })
      .optional()
      .describe("Compare passages by meaning as well as by words. Not set: by words alone."),
  })
  .prefault({})
  .describe("Documents that agents search.");

export type KnowledgeConfig = z.output<typeof knowledgeSchema>;
