import { useEffect, useState, useRef } from "preact/hooks";
import type {
  DocumentRecord,
  DocumentPassage,
  PassagePage,
} from "../../../../src/knowledge/types.ts";
import { ActionButton } from "../../action-button.tsx";
import { ask } from "../../api.ts";
import { select } from "../../listing.tsx";
import { href } from "../../router.ts";
import { useResource } from "../../resource.ts";
import { Button, Facts, Id, Status, Time, Section } from "../../ui/basic.tsx";
import { bytes, number, plural, visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { changes } from "./uploads.ts";

/** So many passages are shown before and after the one that was asked for. */
const BEFORE = 3;
const STEP = 20;

function PassageText({ passage, marked }: { passage: DocumentPassage; marked: boolean }) {
  const box = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (marked) box.current?.scrollIntoView({ block: "start" });
  }, [marked, passage.chunkId]);
  const where = [...passage.headings, ...(passage.page === null ? [] : [`page ${passage.page}`])];
  return (
    <li ref={box} class={marked ? "marked" : ""} aria-current={marked ? "true" : undefined}>
      <header>
        <a href={href("documents", passage.chunkId)} title="A link to this passage">
          #{passage.number}
        </a>
        <span class="quiet">{visibleText(where.join(" › "))}</span>
        {marked ? <span class="documents-here">the passage that was asked for</span> : null}
      </header>
      <p>{visibleText(passage.text)}</p>
    </li>
  );
}

/** The passages that search finds of a document, in the order of its text; `at` is the passage that a search or a citation names. */
function Passages(props: {
  id: string;
  tenant: string;
  at: number | null;
  count: number;
  version: string;
}) {
  const { id, tenant, at, count } = props;
  const [range, setRange] = useState({ from: 0, limit: STEP });
  useEffect(() => setRange({ from: Math.max(0, (at ?? 0) - BEFORE), limit: STEP }), [id, at]);
  const query = new URLSearchParams({
    tenant,
    from: String(range.from),
    limit: String(range.limit),
  });
  // Another version of the document has other passages.
  const path = `/knowledge/documents/${encodeURIComponent(id)}/passages?${query.toString()}`;
  const page = useResource<PassagePage>(path);
  const { reload } = page;
  useEffect(reload, [props.version]);
  if (count === 0) return null;
  return (
    <Section title={`Passages (${count})`}>
      <Loaded resource={page} lines={8}>
        {({ passages, hasMore }) => (
          <>
            {range.from > 0 ? (
              <Button
                onClick={() =>
                  setRange({
                    from: Math.max(0, range.from - STEP),
                    limit: range.limit + Math.min(STEP, range.from),
                  })
                }
              >
                Show those before
              </Button>
            ) : null}
            <ol class="documents-passages">
              {passages.map((passage) => (
                <PassageText
                  key={passage.chunkId}
                  passage={passage}
                  marked={passage.number === at}
                />
              ))}
            </ol>
            {at !== null && passages.every(({ number }) => number !== at) ? (
              <p class="quiet">
                This version of the document has no passage #{at}: the document was replaced or read
                again since.
              </p>
            ) : null}
            {hasMore ? (
              <Button onClick={() => setRange({ ...range, limit: range.limit + STEP })}>
                Show more
              </Button>
            ) : null}
          </>
        )}
      </Loaded>
    </Section>
  );
}

const WORK_MS = 700;

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

function Problem({ document: { error, status } }: { document: DocumentRecord }) {
  if (!error) return null;
  return (
    <div class="documents-problem" role="alert">
      <p class="bad">
        {error.code.replaceAll("_", " ")}: {error.message}
      </p>
      {error.package ? <pre class="command">npm install {error.package}</pre> : null}
      {status === "ready" ? (
        <p class="quiet">The version that was indexed before is still found.</p>
      ) : null}
    </div>
  );
}

interface ActionsProps {
  document: DocumentRecord;
  tenant: string;
  changed(): void;
  /** Called with true before the document is deleted, and with false if it could not be. */
  deleting(isUnderWay: boolean): void;
}

function Actions({ document, tenant, changed, deleting }: ActionsProps) {
  const path = `/knowledge/documents/${encodeURIComponent(document.id)}`;
  const query = `?${new URLSearchParams({ tenant }).toString()}`;
  const remove = async (): Promise<void> => {
    deleting(true);
    try {
      await ask(`${path}${query}`, { method: "DELETE" });
    } catch (error) {
      deleting(false);
      throw error;
    }
  };
  return (
    <div class="actions">
      <ActionButton
        label="Read again"
        send={() => ask(`${path}/reindex${query}`, { method: "POST" })}
        done="The document is read again. The previous version is found until that has ended."
        onDone={changed}
      />
      <ActionButton
        label="Delete"
        kind="danger"
        question={[
          `Delete ${visibleText(document.filename)}?`,
          `The file and its ${plural(document.chunkCount, "passage")} are deleted. This cannot be undone.`,
        ]}
        send={remove}
        done={`Deleted ${visibleText(document.filename)}.`}
        onDone={() => {
          changed();
          select("documents", "");
        }}
      />
    </div>
  );
}

function DocumentFacts({ document }: { document: DocumentRecord }) {
  return (
    <Facts
      pairs={[
        ["Document", <Id id={document.id} />],
        ["File", visibleText(document.filename)],
        ["State", <DocumentState document={document} />],
        ["Type", document.mimeType],
        ["Size", bytes(document.bytes)],
        ["Pages", document.pageCount],
        ["Passages", number(document.chunkCount)],
        ["With a vector", document.embeddedCount > 0 ? number(document.embeddedCount) : null],
        [
          "Agents",
          document.agentIds.length === 0
            ? "every agent of the tenant"
            : document.agentIds.join(", "),
        ],
        ["Your name for it", document.externalId],
        ["Version", document.version],
        ["Added", <Time iso={toIso(document.createdAt)} />],
        ["Indexed", document.indexedAt && <Time iso={toIso(document.indexedAt)} />],
        ...Object.entries(document.metadata).map(
          ([name, value]) => [visibleText(name), visibleText(String(value))] as const,
        ),
      ]}
    />
  );
}

const changed = (): void => {
  changes.value += 1;
};

/** One document: its state, what may be done with it, and its passages. */
export function Detail({ id, at, tenant }: { id: string; at: number | null; tenant: string }) {
  const path = `/knowledge/documents/${encodeURIComponent(id)}?${new URLSearchParams({ tenant }).toString()}`;
  const [isDeleting, setDeleting] = useState(false);
  // A document that is being deleted is not asked for any more: the answer would be that there is none.
  const resource = useResource<{ document: DocumentRecord }>(isDeleting ? null : path, {
    live: true,
  });
  const { data, reload } = resource;
  const works = data !== undefined && isUnderWay(data.document);
  useEffect(() => {
    if (!works) return;
    const timer = setInterval(reload, WORK_MS);
    return () => {
      clearInterval(timer);
      changed();
    };
  }, [works, reload]);
  return (
    <Loaded resource={resource}>
      {({ document }) => (
        <article class="documents-detail" aria-label={`Document ${visibleText(document.filename)}`}>
          <h2>{visibleText(document.title ?? document.filename)}</h2>
          <Actions
            document={document}
            tenant={tenant}
            changed={() => {
              reload();
              changed();
            }}
            deleting={setDeleting}
          />
          <Problem document={document} />
          <DocumentFacts document={document} />
          <Passages
            id={id}
            tenant={tenant}
            at={at}
            count={document.chunkCount}
            version={`${document.version} ${document.indexedAt ?? ""}`}
          />
        </article>
      )}
    </Loaded>
  );
}
