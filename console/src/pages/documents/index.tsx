import "./style.css";
import type { DocumentStatus } from "../../../../src/knowledge/types.ts";
import { FilterSearch, FilterSelect } from "../../filters.tsx";
import { ListPage, select } from "../../listing.tsx";
import { useResource } from "../../resource.ts";
import { place } from "../../router.ts";
import { Detail } from "./detail.tsx";
import { DocumentList, type DocumentFields } from "./list.tsx";
import { Results } from "./results.tsx";
import { DropZone, UploadButton, UploadList } from "./upload-list.tsx";

/** The tenant of the operator's own documents, which the command line uses too. */
const DOCUMENT_TENANT = "default";

const STATES: readonly DocumentStatus[] = ["queued", "extracting", "indexing", "ready", "failed"];

function DocumentFilters({ fields, text }: { fields: DocumentFields; text: string }) {
  const agents = useResource<{ agents: { id: string }[] }>("/agents");
  const keys = useResource<{ keys: { tenant: string }[] }>("/keys");
  const tenants = [
    ...new Set([
      DOCUMENT_TENANT,
      ...(keys.data?.keys.map(({ tenant }) => tenant) ?? []),
      fields.tenant,
    ]),
  ];
  return (
    <>
      <FilterSearch name="q" label="Search in passages" placeholder="Ask as an agent would" />
      {text === "" ? <FilterSelect name="status" label="State" options={["", ...STATES]} /> : null}
      <FilterSelect
        name="agent"
        label="Agent"
        options={["", ...(agents.data?.agents.map(({ id }) => id) ?? [])]}
      />
      {tenants.length > 1 ? (
        <FilterSelect name="tenant" label="Tenant" fallback={DOCUMENT_TENANT} options={tenants} />
      ) : null}
    </>
  );
}

/** Documents that agents look things up in: upload, state, passages, and the search as agents have it. */
export function Page() {
  const { id, query } = place.value;
  const { q = "", agent = "", status = "", tenant = DOCUMENT_TENANT } = query;
  const fields = { agent, status, tenant };
  const [documentId = "", passage] = id.split("#");
  const page = {
    page: "documents",
    title: "Documents",
    filters: <DocumentFilters fields={fields} text={q} />,
    actions: <UploadButton fields={fields} />,
    notices: <UploadList />,
    detail: () => (
      <Detail
        key={documentId}
        id={documentId}
        at={passage === undefined ? null : Number(passage)}
        tenant={tenant}
      />
    ),
  };
  const results = (
    <Results
      {...fields}
      text={q}
      selected={id}
      onSelect={(chunkId) => select("documents", chunkId)}
    />
  );
  return (
    <DropZone fields={fields}>
      {q === "" ? (
        <DocumentList {...page} fields={fields} selected={documentId} />
      ) : (
        <ListPage {...page} list={results} />
      )}
    </DropZone>
  );
}
