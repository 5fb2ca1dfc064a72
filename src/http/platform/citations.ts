import { cutText } from "../../core/text.ts";
import { findCited, type NamedCitation } from "../../turns/knowledge.ts";

const MAX_QUOTE = 300;

/** Where an answer comes from: fields of our own, once, on what ends the answer. Passages that it does not name are left out. */
export function toCitations(text: string, passages: readonly NamedCitation[]) {
  return findCited(text, passages).cited.map(
    ({ number, documentId, chunkId, filename, title, page, score, text: quoted }) => ({
      index: number,
      document_id: documentId,
      chunk_id: chunkId,
      filename,
      title,
      page,
      score,
      quote: cutText(quoted, MAX_QUOTE).text,
    }),
  );
}

/** The same in the form that clients know: one for each number in the text. */
export function toAnnotations(text: string, passages: readonly NamedCitation[]) {
  return findCited(text, passages).marks.map(
    ({ citation: { documentId, chunkId, filename, title }, start, end }) => ({
      type: "url_citation" as const,
      start_index: start,
      end_index: end,
      url: `rouse:documents/${documentId}#${chunkId}`,
      title: title ?? filename,
    }),
  );
}
