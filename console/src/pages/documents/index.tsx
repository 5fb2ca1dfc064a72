import "./style.css";
import { useEffect, useState } from "preact/hooks";
import type {
  DocumentPage,
  DocumentRecord,
  DocumentStatus,
} from "../../../../src/knowledge/types.ts";
import { ask } from "../../api.ts";
import { filter, go, href, place } from "../../router.ts";
import { useResource } from "../../resource.ts";
import { Time } from "../../ui/basic.tsx";
import { Search, Select } from "../../ui/fields.tsx";
import { bytes, number, visibleText } from "../../ui/format.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Split } from "../../ui/split.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { toastError } from "../../ui/toast.tsx";
import { Detail, DocumentState, isUnderWay, toIso } from "./detail.tsx";
import { Results } from "./results.tsx";
import { DropZone, UploadButton, UploadList } from "./upload-list.tsx";
import { changes } from "./uploads.ts";

/** The tenant of the operator's own documents, which the command line uses too. */
const DOCUMENT_TENANT = "default";

const STATES: readonly DocumentStatus[] = ["queued", "extracting", "indexing", "ready", "failed"];

const WORK_MS = 1000;
const PAGE = 100;

interface Filters {
  tenant: string;
  agent: string;
  status: string;
}

/** The newest documents, asked for again while one is worked on, and the older pages that were scrolled to. */
function useDocuments({ tenant, agent, status }: Filters) {
  const query = new URLSearchParams({
    tenant,
    limit: String(PAGE),
    ...(agent && { agent }),
    ...(status && { status }),
  }).toString();
  const newest = useResource<DocumentPage>(`/knowledge/documents?${query}`, { live: true });
  const [older, setOlder] = useState<{
    query: string;
    documents: readonly DocumentRecord[];
    hasMore: boolean;
  } | null>(null);
  const { data, reload } = newest;
  const works = data?.documents.some(isUnderWay) ?? false;
  useEffect(() => {
    if (!works) return;
    const timer = setInterval(reload, WORK_MS);
    return () => clearInterval(timer);
  }, [works, reload]);
  const changed = changes.value;
  useEffect(() => {
    if (changed > 0) reload();
  }, [changed, reload]);
  const kept = older?.query === query ? older : null;
  const known = new Set(data?.documents.map(({ id }) => id));
  const rows = [
    ...(data?.documents ?? []),
    ...(kept?.documents ?? []).filter(({ id }) => !known.has(id)),
  ];
  const more = (): void => {
    const after = rows.at(-1)?.id;
    if (after === undefined || !(kept?.hasMore ?? data?.hasMore)) return;
    ask<DocumentPage>(`/knowledge/documents?${query}&after=${encodeURIComponent(after)}`)
      .then(({ documents, hasMore }) =>
        setOlder({ query, documents: [...(kept?.documents ?? []), ...documents], hasMore }),
      )
      .catch(toastError);
  };
  return { newest, rows, more };
}

function DocumentTable(props: Filters & { selected: string }) {
  const { newest, rows, more } = useDocuments(props);
  const filtered = props.agent !== "" || props.status !== "";
  return (
    <Loaded resource={newest}>
      {() =>
        rows.length === 0 ? (
          filtered ? (
            <Empty>No document has this state and is for this agent.</Empty>
          ) : (
            <Empty
              command={
                'echo "Returns are free for 30 days." > returns.md && rouse knowledge add returns.md'
              }
            >
              There is no document yet. Drop files here, choose them above, or add them on the
              command line.
            </Empty>
          )
        ) : (
          <Table
            label="Documents"
            rows={rows}
            rowId={({ id }) => id}
            selected={props.selected}
            onSelect={(id) => go(href("documents", id, place.peek().query))}
            onEnd={more}
            columns={[
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
            ]}
          />
        )
      }
    </Loaded>
  );
}

function Head({ filters, text }: { filters: Filters; text: string }) {
  const agents = useResource<{ agents: { id: string }[] }>("/agents");
  const keys = useResource<{ keys: { tenant: string }[] }>("/keys");
  const tenants = [
    ...new Set([
      DOCUMENT_TENANT,
      ...(keys.data?.keys.map(({ tenant }) => tenant) ?? []),
      filters.tenant,
    ]),
  ];
  return (
    <PageHead
      title="Documents"
      filters={
        <>
          <Search
            label="Search in passages"
            value={text}
            placeholder="Ask as an agent would"
            onSearch={(q) => filter({ q })}
          />
          {text === "" ? (
            <Select
              label="State"
              value={filters.status}
              options={["", ...STATES]}
              onChange={(status) => filter({ status })}
            />
          ) : null}
          <Select
            label="Agent"
            value={filters.agent}
            options={["", ...(agents.data?.agents.map(({ id }) => id) ?? [])]}
            onChange={(agent) => filter({ agent })}
          />
          {tenants.length > 1 ? (
            <Select
              label="Tenant"
              value={filters.tenant}
              options={tenants}
              onChange={(tenant) => filter({ tenant })}
            />
          ) : null}
        </>
      }
      actions={<UploadButton fields={filters} />}
    />
  );
}

/** Documents that agents look things up in: upload, state, passages, and the search as agents have it. */
export function Page() {
  const { id, query } = place.value;
  const { q = "", agent = "", status = "", tenant = DOCUMENT_TENANT } = query;
  const filters = { agent, status, tenant };
  const [documentId = "", passage] = id.split("#");
  const list =
    q === "" ? (
      <DocumentTable {...filters} selected={documentId} />
    ) : (
      <Results
        {...filters}
        text={q}
        selected={id}
        onSelect={(chunkId) => go(href("documents", chunkId, place.peek().query))}
      />
    );
  return (
    <DropZone fields={filters}>
      <Head filters={filters} text={q} />
      <UploadList />
      <Split
        name="documents"
        list={list}
        detail={
          documentId === "" ? null : (
            <Detail
              key={documentId}
              id={documentId}
              at={passage === undefined ? null : Number(passage)}
              tenant={tenant}
            />
          )
        }
        onClose={() => go(href("documents", "", query))}
      />
    </DropZone>
  );
}
