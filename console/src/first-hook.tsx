import type { ComponentChildren } from "preact";
import { useResource } from "./resource.ts";
import { Empty } from "./ui/states.tsx";

/** An empty list, with a command that sends a hook to this gateway, at the address that its senders use. */
export function FirstHook({ children }: { children: ComponentChildren }) {
  const status = useResource<{ status: { url?: string } }>("/status");
  const mappings = useResource<{ base: string; enabled: boolean; publicUrl: string | null }>(
    "/mappings",
  );
  if (!mappings.data || (!status.data && !status.error)) return <Empty>{children}</Empty>;
  const { base, enabled, publicUrl } = mappings.data;
  if (!enabled)
    return (
      <Empty>
        Hooks are turned off: set hooks.enabled, and hooks.token to a token of your own.
      </Empty>
    );
  const url = `${publicUrl ?? status.data?.status.url ?? location.origin}${base}/agent`;
  const command = `curl -sS ${url} -H "authorization: Bearer $ROUSE_HOOK_TOKEN" -H "content-type: application/json" -d '{"message":"Say hello"}'`;
  return (
    <Empty command={command}>
      {children} <span class="quiet">$ROUSE_HOOK_TOKEN is the token of hooks.token.</span>
    </Empty>
  );
}
