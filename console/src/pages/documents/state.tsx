import type { DocumentRecord } from "../../../../src/knowledge/types.ts";
import { Status } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";

export const isUnderWay = ({ status }: Pick<DocumentRecord, "status">): boolean =>
  status !== "ready" && status !== "failed";
export const toIso = (ms: number | null): string | null =>
  ms === null ? null : new Date(ms).toISOString();

/** The state of a document; while it is worked on with how far that is. */
export function DocumentState({ document }: { document: DocumentRecord }) {
  const { status, progress } = document;
  const tone = status === "ready" ? "good" : status === "failed" ? "bad" : "warn";
  return (
    <span class="documents-state">
      <Status word={status} tone={tone} />
      {isUnderWay(document) ? (
        <progress
          max={1}
          value={progress}
          aria-label={`Indexing of ${visibleText(document.filename)}`}
        >
          {Math.round(progress * 100)} %
        </progress>
      ) : null}
    </span>
  );
}
