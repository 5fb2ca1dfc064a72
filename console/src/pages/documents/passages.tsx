import { useEffect, useRef, useState } from "preact/hooks";
import type { DocumentPassage, PassagePage } from "../../../../src/knowledge/types.ts";
import { href } from "../../router.ts";
import { useResource } from "../../resource.ts";
import { Button, Section } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";

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

/** What search finds of a document, in the order of its text; `at` is the passage that a search or a citation names. */
export function Passages(props: {
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
