import type { Issue } from "../core/errors.ts";
import type { FileTexts } from "../core/files.ts";
import type { Snapshot } from "../intake/types.ts";
import { createTransformPool } from "../mapping/transforms/pool.ts";
import { unknownId } from "../vocabulary/unknown-id.ts";
import { createLanding, type Landing, type LandingDeps } from "./edits/landing.ts";
import { createProposals } from "./proposals/proposals.ts";
import { createDecidedBy } from "./records/decided-by.ts";
import { found } from "./records/operation.ts";
import { describeStatus } from "./status.ts";
import { freezeEvent } from "./tests/freeze.ts";
import type { AdminDeps, OperateContext } from "./types.ts";
import { createFailureAlerts } from "./watch/failure-alerts.ts";
import { createFailureStates } from "./watch/failure-states.ts";
import type { WhatIf, Workbench } from "./workbench.ts";

/** The parts by which operators see and change what a gateway does. */
export type OperateParts = ReturnType<typeof openOperate>;

interface OpenContext extends OperateContext {
  whatIf: WhatIf & { isAvailable: boolean; examine: NonNullable<LandingDeps["examine"]> };
  /** Builds a snapshot from the files, with `texts` in place of some. */
  build(change: {
    texts: FileTexts;
  }): Promise<
    | { ok: true; loaded: { snapshot: Snapshot; dispose(): Promise<void> } }
    | { ok: false; issues: Issue[] }
  >;
}

/** Says which gateways of a cluster do not use this gateway's config, so that a change of its files would be one gateway's alone. */
async function findOtherConfigs({ cluster, snapshot }: OpenContext): Promise<string | undefined> {
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
function logChanges(landing: Landing, { snapshot, log }: OpenContext): Landing {
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
function createWorkbench(context: OpenContext): Workbench {
  const { store, clock, log, reloader, snapshot, build, whatIf } = context;
  const changes: LandingDeps = {
    ...(whatIf.isAvailable && { examine: whatIf.examine }),
    snapshot,
    async withCandidate(texts, use) {
      const built = await build({ texts });
      try {
        return await use(built.ok ? { ok: true, snapshot: built.loaded.snapshot } : built);
      } finally {
        if (built.ok) await built.loaded.dispose();
      }
    },
    withStore: (use) => use(store),
    reload: reloader.reload,
    findObstacle: () => findOtherConfigs(context),
    now: clock.now,
  };
  const landing = logChanges(createLanding(changes), context);
  const getEvent = (id: string) => store.events.get(id);
  const requireEvent = async (id: string) => found(await getEvent(id), unknownId("event", id));
  return {
    freeze: (request) => freezeEvent(request, { ...changes, requireEvent }),
    landing,
    proposals: createProposals({ ...changes, getEvent, land: landing.land, log }),
    whatIf,
  };
}

export function openOperate(context: OpenContext) {
  const { reloader, opened } = context;
  const { env } = context.options;
  // Apart from the pool of the mappings in use: a reload ends its children, and what they were doing.
  const pool = createTransformPool(env);
  opened.defer(() => pool.close());
  const baseDir = (): string => reloader.loaded().baseDir;
  const admin: AdminDeps = {
    ...context,
    decidedBy: createDecidedBy({ ...context, baseDir, env, pool }),
    status: () => describeStatus(context),
    failures: createFailureStates(context),
  };
  return {
    admin,
    workbench: createWorkbench(context),
    alerts: createFailureAlerts(context),
  };
}
