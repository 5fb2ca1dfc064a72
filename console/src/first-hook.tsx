import type { ComponentChildren } from "preact";
import { toHookTarget, type HooksAnswer } from "./shell-line.ts";
import { useResource } from "./resource.ts";
import { Empty } from "./ui/states.tsx";

/** An empty list, with a command that sends a hook to this gateway, at the address that its senders use. */
export function FirstHook({ children }: { children: ComponentChildren }) {
  const status = useResource<{ status: { url?: string } }>("/status");
  const mappings = useResource<HooksAnswer>("/mappings");
  if (!mappings.data || (!status.data && !status.error)) return <Empty>{children}</Empty>;
  if (!mappings.data.enabled)
    return (
      <Empty>
        Hooks are turned off: set hooks.enabled, and hooks.token to a token of your own.
      </Empty>
    );
  const { url, token } = toHookTarget(mappings.data, status.data?.status.url);
  const command = `curl -sS ${url}/agent -H "authorization: Bearer ${token}" -H "content-type: application/json" -d '{"message":"Say hello"}'`;
  return (
    <Empty command={command}>
      {children}{" "}
      {token.startsWith("$(") ? (
        <span class="quiet">It reads the token on the gateway's machine.</span>
      ) : null}
    </Empty>
  );
}
