import { useResource } from "../../resource.ts";
import { Doctor, Mappings, TopFailures } from "./found.tsx";
import { Summary } from "./health.tsx";
import { Hooks } from "./hooks.tsx";
import { Channels, NewestHooks } from "./newest.tsx";
import type { GatewayStatus } from "./types.ts";
import { Usage } from "./usage.tsx";
import "./style.css";

/** How the gateway does, and what needs a look: each part loads by itself and leads to where it is dealt with. */
export function Page() {
  const status = useResource<{ status: GatewayStatus }>("/status", { live: true });
  return (
    <>
      <header class="page-head">
        <h1>Overview</h1>
      </header>
      <div class="page-body">
        <Summary status={status} />
        <Hooks />
        <div class="overview-columns">
          <NewestHooks />
          <TopFailures />
        </div>
        <div class="overview-columns">
          <Channels status={status.data?.status} />
          <Mappings />
        </div>
        <div class="overview-columns">
          <Doctor />
          <Usage />
        </div>
      </div>
    </>
  );
}
