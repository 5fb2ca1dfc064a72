import { withSnapshot } from "../../gateway/validate-config.ts";
import { RouseError } from "../../core/errors.ts";
import { createLanding, type Landing, type LandingCheck } from "../../operate/edits/landing.ts";
import type { MappingChange } from "../../operate/edits/planned-change.ts";
import type { StoreReader } from "../../store/types.ts";
import { connectRunning, read, type GatewayConnection } from "../gateway/connect.ts";
import { withFiles, withReader, type Offline } from "../gateway/offline.ts";
import type { CliIo } from "../io.ts";
import type { CommonOptions } from "../options.ts";
import { printAnsweredBy } from "../print.ts";
import { toSnapshotOptions } from "../settings.ts";

/** Makes changes in the running gateway, or in this process if none runs. */
interface ChangeClient {
  check(change: MappingChange): Promise<LandingCheck>;
  land: Landing["land"];
}

function inGateway({ api }: GatewayConnection): ChangeClient {
  return {
    check: async (change) => (await read(api.changes.check.$post({ json: { change } }))).check,
    land: async (change, { base, confirm }) =>
      (
        await read(
          api.changes.$post({ json: { change, base, ...(confirm && { confirm: [...confirm] }) } }),
        )
      ).result,
  };
}

/** Opens what makes changes. Both ways do the same; only a gateway that runs takes the change into use. */
export async function withChanges(
  options: CommonOptions,
  io: CliIo,
  use: (changes: ChangeClient) => Promise<void>,
): Promise<void> {
  const live = await connectRunning(options, io);
  if (live) {
    if (live.config !== undefined)
      printAnsweredBy(io, live.config, "the running gateway", options.json === true);
    return use(inGateway(live));
  }
  return withFiles({ config: options.config }, io, (today) => {
    const { configFile } = today.snapshot;
    const files = { ...toSnapshotOptions({ config: configFile }, io), withoutSecrets: true };
    const landing = createLanding({
      snapshot: () => today.snapshot,
      withCandidate: (texts, judge) =>
        withSnapshot({ ...files, texts }, (result) =>
          judge(result.ok ? { ok: true, snapshot: result.loaded.snapshot } : result),
        ),
      withStore: (read) => withStore(today, io, read),
      findObstacle: async () => undefined,
      now: io.now,
    });
    return use(landing);
  });
}

/** Reads the store of a config beside whatever uses it; null if nothing is stored yet. */
async function withStore<T>(
  today: Offline,
  io: CliIo,
  use: (store: StoreReader) => Promise<T>,
): Promise<T | null> {
  let isOpen = false;
  try {
    return await withReader(today, io, (store) => {
      isOpen = true;
      return use(store);
    });
  } catch (error) {
    if (isOpen || !(error instanceof RouseError)) throw error;
    return null;
  }
}
