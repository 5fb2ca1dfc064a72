import { createBookmarks } from "../operate/records/bookmarks.ts";
import type { Logger } from "../core/log.ts";
import { createFreezer } from "../operate/tests/freeze.ts";
import { createLanding, type Landing, type LandingDeps } from "../operate/edits/landing.ts";
import { createProposals } from "../operate/proposals/proposals.ts";
import type { Workbench } from "../operate/workbench.ts";
import type { Resources } from "./resources.ts";
import { createWhatIf } from "./what-if.ts";

/** Says which gateways of a cluster do not use this gateway's config, so that a change of its files would be one gateway's alone. */
async function findOtherConfigs({ cluster, snapshot }: Resources): Promise<string | undefined> {
  if (!cluster.shared) return undefined;
  const own = snapshot().clusterHash;
  const others = (await cluster.list()).filter(
    ({ self, alive, info }) => !self && alive && info && info.snapshot !== own,
  );
  if (others.length === 0) return undefined;
  const names = others.map(({ id, info }) => info?.host ?? id).join(", ");
  return `other gateways of the same database have another config (${names}): change the files of all of them`;
}

/** Logs who changed which file, and from which config to which. */
function logChanges(landing: Landing, snapshot: Resources["snapshot"], log: Logger): Landing {
  return {
    ...landing,
    async land(change, options) {
      const from = snapshot().hash;
      const result = await landing.land(change, options);
      if (result.landed)
        log.info(
          { by: options.by, change: change.kind, file: result.file, from, to: snapshot().hash },
          "the config was changed",
        );
      return result;
    },
  };
}

/** Creates what operators work on mappings with. */
export function createWorkbench(resources: Resources): Workbench {
  const { clock, log, reloader, snapshot, build: buildFiles } = resources;
  const places: LandingDeps["places"] = () => ({
    mappingsDir: snapshot().config.hooks.mappingsDir,
    configFile: snapshot().configFile,
  });
  const whatIf = createWhatIf(resources);
  const changes: LandingDeps & { snapshot: typeof snapshot } = {
    places,
    ...(whatIf.isAvailable && { examine: whatIf.examine }),
    snapshot,
    async withCandidate(texts, use) {
      const built = await buildFiles({ texts });
      try {
        return await use(built.ok ? { ok: true, snapshot: built.loaded.snapshot } : built);
      } finally {
        if (built.ok) await built.loaded.dispose();
      }
    },
    withStore: (use) => use(resources.store),
    reload: reloader.reload,
    findObstacle: () => findOtherConfigs(resources),
    now: clock.now,
  };
  const landing = logChanges(createLanding(changes), snapshot, log);
  const getEvent = (id: string) => resources.store.events.get(id);
  const fixtures = createFreezer({ ...changes, getEvent: createBookmarks(resources).getEvent });
  const proposals = createProposals({ ...changes, getEvent, land: landing.land, log });
  return { fixtures, landing, proposals, whatIf };
}
