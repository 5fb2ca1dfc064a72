import { createHash } from "node:crypto";
import { basename } from "node:path";
import type { Config } from "../config/schema/index.ts";
import { isPresent, readText, type FileTexts } from "../core/files.ts";

/** What belongs to a machine, and may differ between gateways that do the same. */
function withoutMachineSettings({
  stateDir: _stateDir,
  log: _log,
  gateway,
  store,
  hooks,
  ...rest
}: Config): object {
  const { host: _host, port: _port, adminPort: _adminPort, ...shared } = gateway;
  const { url: _url, ...kept } = store;
  const {
    mappingsDir: _mappingsDir,
    transformsDir: _transformsDir,
    testsDir: _testsDir,
    transformPermissions: _permissions,
    ...rules
  } = hooks;
  return { ...rest, gateway: shared, store: kept, hooks: rules };
}

/** A hash that is the same on each machine that has the same settings, mapping files and modules, wherever it has them. */
export function hashForCluster(
  config: Config,
  files: readonly string[],
  texts?: FileTexts,
): string {
  const hash = createHash("sha256").update(JSON.stringify(withoutMachineSettings(config)));
  const contents = files
    .filter((file) => isPresent(file, texts))
    .map((file) => [basename(file), readText(file, texts)] as const);
  const digests = contents.map(
    ([name, content]) => `${name} ${createHash("sha256").update(content).digest("hex")}`,
  );
  for (const line of digests.toSorted()) hash.update(`\n${line}`);
  return hash.digest("hex");
}

/** Changes whenever the config or one of these files does. */
export function hashFiles(configHash: string, files: readonly string[], texts?: FileTexts): string {
  const hash = createHash("sha256").update(configHash);
  for (const file of [...files].toSorted())
    if (isPresent(file, texts)) hash.update(file).update(readText(file, texts));
  return hash.digest("hex");
}
