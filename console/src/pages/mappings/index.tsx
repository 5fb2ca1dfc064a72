import { useResource } from "../../resource.ts";
import { href, place } from "../../router.ts";
import { lazy } from "../../ui/lazy.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { Loaded } from "../../ui/states.tsx";
import { MappingList } from "./list.tsx";
import "../events/style.css";
import "./style.css";
import type { MappingText, Mappings } from "./types.ts";
import { NEW } from "./use-workbench.ts";

/** The workbench is larger than the list, which needs none of it. */
const WorkbenchPage = lazy(async () => (await import("./workbench.tsx")).WorkbenchPage);

/** The ways on if there is no such mapping: age deletes none. */
function Missing() {
  const { event = "" } = place.value.query;
  return (
    <>
      It may have been renamed or removed. <a href={href("mappings")}>All mappings</a>
      {event === "" ? null : (
        <>
          {" "}
          · <a href={href("mappings", NEW, { event })}>A new mapping beside the event</a>
        </>
      )}
    </>
  );
}

/** One mapping, or a new one. `copy` of the address names the mapping whose text it begins with. */
function OneMapping({ id, mappings }: { id: string; mappings: Mappings }) {
  const { copy = "" } = place.value.query;
  const named = id === NEW ? copy : id;
  const mapping = useResource<{ mapping: MappingText }>(
    named === "" ? null : `/mappings/${encodeURIComponent(named)}`,
    { live: true },
  );
  if (named === "")
    return (
      <WorkbenchPage
        key={id}
        id={id}
        mapping={undefined}
        mappings={mappings}
        reload={mapping.reload}
      />
    );
  return (
    <Loaded resource={mapping} gone={<Missing />}>
      {({ mapping: found }) => (
        <WorkbenchPage
          key={`${id} ${named} ${found.shadow}`}
          id={id}
          mapping={found}
          mappings={mappings}
          reload={mapping.reload}
        />
      )}
    </Loaded>
  );
}

/** Mappings in their order, and the workbench of one. */
export function Page() {
  const { id } = place.value;
  const mappings = useResource<Mappings>("/mappings", { live: true });
  return (
    <>
      {mappings.data ? null : <PageHead title="Mappings" />}
      <Loaded resource={mappings}>
        {(all) => (id === "" ? <MappingList {...all} /> : <OneMapping id={id} mappings={all} />)}
      </Loaded>
    </>
  );
}
