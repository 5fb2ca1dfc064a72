import type { Database } from "./thread/client.ts";
import { normalized } from "./models/embed.ts";
import type { MakeCall } from "./models/guarded-calls.ts";
import { asksForMore, getSubject } from "./words/request.ts";
import type { Embedder, Passage, Reranker, SearchModels, SearchQuery } from "./types.ts";

const LIMIT = 8;
const MAX_RESULTS = 1000;
/** So many times the passages that are wanted are looked at if those of one document are limited. */
const WIDER = 4;
/** A question waits so long for its vector; then words alone answer it. */
const QUERY_VECTOR_MS = 3_000;
/** A question waits so long for the order of its passages; then they stay in that of the search. With the vector it is less than a turn waits for passages. */
const RERANK_MS = 5_000;

export interface SearchParts {
  database: Database;
  models: SearchModels;
  makeCall: MakeCall;
}

/** Names the breaker of a model that is called for documents; a model of chats may have the same name. */
export const toBreakerName = (
  kind: string,
  { provider, model }: { provider?: string; model: string },
): string => `${kind}:${provider === undefined ? "" : `${provider}/`}${model}`;

/** The questions that are looked up for one: together with those that it goes on with, and alone. None if nothing is asked. */
function toQuestions(text: string, earlier: string | undefined, relevantOnly: boolean): string[] {
  if (text.trim() === "") return [];
  if (!relevantOnly) return [earlier === undefined ? text : `${text}\n${earlier}`];
  const subject = getSubject(text);
  const before = earlier === undefined ? undefined : getSubject(earlier);
  if (subject === undefined) return before !== undefined && asksForMore(text) ? [before] : [];
  return before === undefined ? [subject] : [`${subject}\n${before}`, subject];
}

/** Keeps at most so many passages of each document. */
function limitByDocument(passages: readonly Passage[], most: number): Passage[] {
  const counts = new Map<string, number>();
  return passages.filter(({ documentId }) => {
    const count = (counts.get(documentId) ?? 0) + 1;
    counts.set(documentId, count);
    return count <= most;
  });
}

/** The text of a passage as a reranker reads it: with the headings above it, of which the text may begin with one. */
const toRanked = ({ headings, text }: Passage): string =>
  [...headings.filter((heading) => !text.startsWith(heading)), text].join("\n");

/** Orders passages by their scores; those behind the scored ones follow as they are, and score no higher. */
function orderByScores(passages: readonly Passage[], scores: readonly number[]): Passage[] {
  const scored = scores
    .map((score, index) => ({ ...(passages[index] as Passage), score }))
    .toSorted((a, b) => b.score - a.score);
  const lowest = scored.at(-1)?.score ?? Infinity;
  return [
    ...scored,
    ...passages
      .slice(scores.length)
      .map((passage) => ({ ...passage, score: Math.min(passage.score, lowest) })),
  ];
}

/**
 * Creates a search over the thread that reads: by words, and by vectors if there is an embedder. The passages are then ordered
 * by the reranker, if there is one, before those of one document are limited.
 */
export function createSearch({
  database,
  models: { embed, rerank },
  makeCall,
}: SearchParts): (query: SearchQuery) => Promise<Passage[]> {
  const embedQuery = (embedder: Embedder, text: string): Promise<Float32Array | undefined> =>
    makeCall({
      of: toBreakerName("embeddings", embedder),
      ms: QUERY_VECTOR_MS,
      otherwise: "no vector for a question: it is answered by words alone",
      async work(signal) {
        const [vector] = await embedder.embed([text], signal);
        return vector && normalized(vector);
      },
    });
  const order = async (
    reranker: Reranker,
    text: string,
    found: readonly Passage[],
    relevantOnly: boolean,
  ): Promise<readonly Passage[]> => {
    if (found.length === 0) return found;
    const { minScore = -Infinity } = reranker;
    const scores = await makeCall({
      of: toBreakerName("reranker", reranker),
      ms: RERANK_MS,
      otherwise: "no reranking of passages: they stay in the order of the search",
      work: (signal) =>
        reranker.rerank(text, found.slice(0, reranker.passages).map(toRanked), signal),
    });
    if (!scores) return found;
    const ordered = orderByScores(found, scores);
    return relevantOnly ? ordered.filter(({ score }) => score >= minScore) : ordered;
  };
  return async ({
    tenant,
    agentIds,
    text,
    earlier,
    limit = LIMIT,
    perDocument = Infinity,
    relevantOnly = false,
  }) => {
    const most = Math.max(1, Math.min(MAX_RESULTS, limit));
    const wanted = Math.max(perDocument < most ? most * WIDER : most, rerank?.passages ?? 0);
    const looked = Math.min(MAX_RESULTS, wanted);
    const questions = toQuestions(text, earlier, relevantOnly);
    const [whole] = questions;
    if (whole === undefined) return [];
    const vector = embed && (await embedQuery(embed, whole));
    const found = await Promise.all(
      questions.map((question, index) => {
        const query = {
          tenant,
          text: question,
          limit: looked,
          relevantOnly: relevantOnly && !vector,
          ...(agentIds === undefined ? {} : { agentIds }),
        };
        const near = vector && index === 0 ? { model: embed.model, vector } : undefined;
        return database.call("search", query, near);
      }),
    );
    const different = new Map(found.flat().map((passage) => [passage.chunkId, passage]));
    const passages = [...different.values()].slice(0, looked);
    const ordered = rerank ? await order(rerank, whole, passages, relevantOnly) : passages;
    return limitByDocument(ordered, perDocument).slice(0, most);
  };
}
