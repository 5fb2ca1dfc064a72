import { useResource } from "../../resource.ts";
import { place } from "../../router.ts";
import { Loaded } from "../../ui/states.tsx";
import { DraftPage } from "./draft.tsx";
import { MappingList } from "./list.tsx";
import "./style.css";
import type { MappingText, Mappings } from "./types.ts";
import { NEW } from "./use-workbench.ts";
import { WorkbenchPage } from "./workbench.tsx";

/** How the address names a draft: `#/mappings/draft:refund`. */
const DRAFT = "draft:";

/** One mapping, or a new one. `copy` of the address names the mapping whose text it begins with. */
function OneMapping({ id, mappings }: { id: string; mappings: Mappings }) {
  const { copy = "" } = place.value.query;
  const named = id === NEW ? copy : id;
  const mapping = useResource<{ mapping: MappingText }>(named === "" ? null : `/mappings/${encodeURIComponent(named)}`, { live: true });
  if (named === "") return <WorkbenchPage key={id} id={id} mapping={undefined} mappings={mappings} />;
  return (
    <Loaded resource={mapping}>
      {({ mapping: found }) => <WorkbenchPage key={`${id} ${named}`} id={id} mapping={found} mappings={mappings} />}
    </Loaded>
  );
}

/** Mappings in their order, and the workbench of one. */
export function Page() {
  const { id } = place.value;
  const mappings = useResource<Mappings>("/mappings", { live: true });
  return (
    <Loaded resource={mappings}>
      {(all) => {
        if (id === "") return <MappingList {...all} />;
        if (id.startsWith(DRAFT)) return <DraftPage name={id.slice(DRAFT.length)} mappings={all} reload={mappings.reload} />;
        return <OneMapping id={id} mappings={all} />;
      }}
    </Loaded>
  );
}
