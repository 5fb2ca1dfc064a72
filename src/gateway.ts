import type { Gateway } from "./http/types.ts";

export interface GatewayOptions {
  /** Path of the config file; undefined looks in the usual places (see `config/load.ts`). */
  configFile?: string;
  cwd: string;
  env: Record<string, string | undefined>;
  /** False: accepts and runs nothing. */
  workers: boolean;
  /** Overrides of the config, from flags. */
  port?: number;
  print?: (text: string) => void;
}

/** The composition root. Throws RouseError `config_invalid` with all issues, or `store_locked`. */
export async function createGateway(_options: GatewayOptions): Promise<Gateway> {
  throw new Error("being built");
}
