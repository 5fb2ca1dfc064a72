import type { LoadedConfig } from "../config/load.ts";
import type { FileTexts } from "../core/files.ts";
import type { Offers } from "../contract/offers.ts";
import { compileMappings, type MappingOptions } from "../mapping/compile.ts";
import { PRESETS_DIR, SCHEMES_DIR } from "../mapping/presets.ts";
import { getSecretPlaces } from "../mapping/transforms/permissions.ts";
import { createBudgets } from "../queue/admission.ts";
import { createVerifiers } from "./signatures/verifiers.ts";

interface HookPlugins {
  offers: Offers;
  /** True if a plugin could not be loaded, so that not all presets are known. */
  incomplete: boolean;
  shipped: { presets: readonly string[] };
}

export interface CompileContext extends Pick<MappingOptions, "env" | "pool"> {
  fetch: typeof fetch;
  /** Take a config whose `${NAME}` or `{ file }` cannot be put in. Nothing can be sent or verified with it. */
  withoutSecrets?: boolean;
  /** Texts in place of the config file and of mapping files, by their absolute paths: what a changed config would do. */
  texts?: FileTexts;
}

/** Compiles the mappings, what verifies the signatures of their hooks, and the budgets of their runs. */
export async function compileHooks(
  { config, baseDir, file }: LoadedConfig,
  { offers, incomplete, shipped }: HookPlugins,
  known: MappingOptions["known"],
  { env, fetch, pool, texts, withoutSecrets = false }: CompileContext,
) {
  const { hooks, gateway } = config;
  const mappings = await compileMappings({
    hooks,
    baseDir,
    mappingsDir: hooks.mappingsDir,
    transformsDir: hooks.transformsDir,
    secretPlaces: getSecretPlaces(config, file),
    presetsDir: PRESETS_DIR,
    texts,
    pluginPresets: offers.presets,
    pluginTransforms: offers.transforms,
    pluginsMissing: incomplete,
    shippedPresets: shipped.presets,
    env,
    withoutSecrets,
    known,
    pool,
  });
  const signed = mappings.set.paths.flatMap(({ path, auth, authAt, methods }) =>
    auth && "scheme" in auth ? [{ path, auth, at: authAt ?? path, methods }] : [],
  );
  const schemes = { dir: SCHEMES_DIR, plugins: offers.schemes };
  const signatures = createVerifiers(signed, schemes, gateway.publicUrl, fetch);
  return {
    mappings: mappings.set,
    verifiers: signatures.verifiers,
    budgets: createBudgets(hooks.limits, mappings.set),
    files: [...mappings.set.files, ...signatures.files],
    issues: [...mappings.issues, ...signatures.issues],
    warnings: mappings.warnings,
  };
}
