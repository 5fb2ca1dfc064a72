import { useEffect } from "preact/hooks";
import type { DocumentPage, DocumentRecord } from "../../../../src/knowledge/types.ts";
import { Listing, type ListPageProps } from "../../listing.tsx";
import { usePaged } from "../../paged.ts";
import { Time } from "../../ui/basic.tsx";
import { bytes, number, visibleText } from "../../ui/format.ts";
import { Empty } from "../../ui/states.tsx";
import type { Column } from "../../ui/table.tsx";
import { DocumentState, isUnderWay, toIso } from "./state.tsx";
import { changes } from "./uploads.ts";

const WORK_MS = 1000;

export interface DocumentFields {
  tenant: string;
  agent: string;
  status: string;
}

const COLUMNS: readonly Column<DocumentRecord>[] = [
  { head: "State", cell: (document) => <DocumentState document={document} /> },
  {
    head: "Document",
    cell: ({ title, filename }) => visibleText(title ?? filename),
    grow: true,
  },
  { head: "Passages", cell: ({ chunkCount }) => number(chunkCount), numeric: true },
  {
    head: "Size",
    cell: (document) => bytes(document.bytes),
    numeric: true,
    minor: true,
  },
  {
    head: "Agents",
    cell: ({ agentIds }) => (agentIds.length === 0 ? "all" : agentIds.join(", ")),
    minor: true,
  },
  { head: "Added", cell: ({ createdAt }) => <Time iso={toIso(createdAt)} /> },
];

/** The last document of a page, if there are further ones. */
const getNext = (answer: Readonly<Record<string, unknown>>): string | null => {
  const { documents, hasMore } = answer as unknown as DocumentPage;
  return hasMore ? (documents.at(-1)?.id ?? null) : null;
};

interface DocumentListProps extends Omit<ListPageProps, "list"> {
  fields: DocumentFields;
  selected: string;
}

/** The documents that the filters leave, newest first. While one is worked on, they are asked for again each second. */
export function DocumentList({ fields, ...page }: DocumentListProps) {
  const paged = usePaged<DocumentRecord>(
    "/knowledge/documents",
    { ...fields },
    { member: "documents", rowId: ({ id }) => id, cursor: "after", getNext },
  );
  const { reload } = paged.resource;
  const works = paged.rows.some(isUnderWay);
  useEffect(() => {
    if (!works) return;
    const timer = setInterval(reload, WORK_MS);
    return () => clearInterval(timer);
  }, [works, reload]);
  const changed = changes.value;
  useEffect(() => {
    if (changed > 0) reload();
  }, [changed, reload]);
  return (
    <Listing
      {...page}
      paged={paged}
      columns={COLUMNS}
      at={({ createdAt }) => toIso(createdAt)}
      empty={
        fields.agent !== "" || fields.status !== "" ? (
          <Empty>No document has this state and is for this agent.</Empty>
        ) : (
          <Empty command='echo "Returns are free for 30 days." > returns.md && rouse knowledge add returns.md'>
            There is no document yet. Drop files here, choose them above, or add them on the command
            line.
          </Empty>
        )
      }
    />
  );
}
