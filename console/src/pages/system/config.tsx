import { ask } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { Button, Section } from "../../ui/basic.tsx";
import { plural } from "../../ui/format.ts";
import { JsonTree } from "../../ui/json-tree.tsx";
import { Loaded, Problems } from "../../ui/states.tsx";
import { toast, toastError } from "../../ui/toast.tsx";
import type { GatewayStatus } from "../overview/types.ts";

function OnDisk({ problems }: { problems: GatewayStatus["reloadProblems"] }) {
  if (problems.length === 0) return <p class="good">✓ The config in use is the one on disk.</p>;
  return (
    <>
      <p class="bad">
        ✗ The config on disk has {plural(problems.length, "problem")}; the one before it is in use.
      </p>
      <Problems all={problems} />
    </>
  );
}

/** The config in use with its secrets masked, its problems, and a way to load it again. */
export function Config() {
  const status = useResource<{ status: GatewayStatus }>("/status", { live: true });
  const config = useResource<{ config: unknown }>("/config");
  const [reload, busy] = useAction(
    async () => {
      const { hash } = await ask<{ hash: string }>("/reload", { method: "POST", body: {} });
      toast(`The config ${hash.slice(0, 12)} is in use.`);
      config.reload();
      status.reload();
    },
    (error) => {
      toastError(error);
      status.reload();
    },
  );
  return (
    <>
      <Section
        title="Config in use"
        actions={
          <Button onClick={reload} busy={busy}>
            Load it again
          </Button>
        }
      >
        <Loaded resource={status} lines={1}>
          {({ status: now }) => (
            <>
              <p class="quiet">{now.configFile ?? "No file: the defaults"}</p>
              <OnDisk problems={now.reloadProblems} />
            </>
          )}
        </Loaded>
        <Loaded resource={config}>{({ config: value }) => <JsonTree value={value} />}</Loaded>
      </Section>
    </>
  );
}
