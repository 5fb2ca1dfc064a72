import type { Config } from "../config/schema/index.ts";
import type { Extractor, ProviderDescription, SourceDocuments } from "../contract/kinds.ts";
import type { Breaker } from "../core/breaker.ts";
import type { PartContext } from "../store/context.ts";
import { createDocumentSync } from "./document-sync.ts";
import { createLazyKnowledge, type LazyKnowledge } from "./lazy.ts";
import { configuredSearchModels } from "./models/configured.ts";

/** The documents, and what uses their search. */
export interface KnowledgeParts {
  knowledge: LazyKnowledge;
  /** Creates the synchronization of the documents of a plugin's source. */
  createDocuments(plugin: string): SourceDocuments;
  /** Finds texts by a question. Returns their places in the list, best first. */
  searchTexts(texts: readonly string[], query: string): Promise<number[]>;
}

interface KnowledgeContext extends PartContext {
  /** Its breaker is that of the models of search, too. */
  parking: { breaker: Breaker };
  snapshot(): {
    config: Config;
    models: { kinds: readonly ProviderDescription[] };
    offers: { extractors: readonly { value: Extractor }[] };
  };
}

/** Creates the documents: their threads and the code that reads files are loaded when something first needs them. */
export function openKnowledge(context: KnowledgeContext): KnowledgeParts {
  const { clock, log, parking, snapshot, opened } = context;
  const { env, fetch } = context.options;
  const place = { dir: context.stateDir, sql: context.sql, env, log };
  const knowledge = createLazyKnowledge({
    ...place,
    extractors: () => snapshot().offers.extractors.map(({ value }) => value),
    config: () => snapshot().config.platform.knowledge,
    async open(extractor) {
      const { createKnowledge } = await import("./knowledge.ts");
      const { config, models } = snapshot();
      const searchModels = configuredSearchModels({ config, env, fetch, kinds: models.kinds });
      const { breaker } = parking;
      const settings = { extractor, clock, config: config.platform.knowledge, breaker };
      return createKnowledge({ ...place, ...settings, ...searchModels });
    },
  });
  opened.defer(() => knowledge.close());
  const maxBytes = (): number => snapshot().config.platform.knowledge.fileMb * 1e6;
  return {
    knowledge,
    createDocuments: (plugin) => createDocumentSync(plugin, { knowledge, maxBytes }),
    // The words of all languages are loaded when texts are first searched.
    searchTexts: async (texts, query) =>
      (await import("./short-texts.ts")).searchTexts(texts, query),
  };
}
