import type { SchemeAuth } from "../config/schema/mapping.ts";
import type { Issue } from "../core/errors.ts";
import { compileVerifier } from "./compile.ts";
import { findSchemeClashes, loadScheme, type SchemeSources } from "./load.ts";
import type { Verifier } from "./types.ts";

/** A path whose callers sign. */
export interface SignedPath {
  path: string;
  auth: SchemeAuth;
  /** The path of `auth` in the config. */
  at: string;
}

export interface Verifiers {
  /** By path. */
  verifiers: ReadonlyMap<string, Verifier>;
  issues: Issue[];
  /** Scheme files, whose change means a new snapshot. */
  files: string[];
}

/** Creates the verifiers of all signed paths. `fetchFrom` gets the senders' certificates and keys. */
export function createVerifiers(
  paths: readonly SignedPath[],
  schemes: SchemeSources,
  publicUrl: string | undefined,
  fetchFrom: typeof fetch,
): Verifiers {
  const verifiers = new Map<string, Verifier>();
  const issues = findSchemeClashes(schemes);
  const files: string[] = [];
  for (const { path, auth, at } of paths) {
    const loaded =
      typeof auth.scheme === "string"
        ? loadScheme(schemes, auth.scheme, `${at}.scheme`)
        : { ok: true as const, scheme: auth.scheme, file: undefined };
    if (!loaded.ok) {
      issues.push(...loaded.issues);
      continue;
    }
    if (loaded.file !== undefined) files.push(loaded.file);
    const made = compileVerifier({
      scheme: loaded.scheme,
      secrets: auth.secret === undefined ? [] : [auth.secret].flat(),
      at: `${at}.secret`,
      verifyToken: auth.verifyToken,
      certificate: { topics: [auth.topicArn ?? []].flat(), fetch: fetchFrom },
      oidc: { audience: auth.audience ?? "", email: auth.email, jwks: auth.jwks, fetch: fetchFrom },
    });
    if (!made.ok) {
      issues.push(...made.issues);
      continue;
    }
    if (made.verifier.needsUrl && publicUrl === undefined)
      issues.push({
        path: "gateway.publicUrl",
        message: `is required: the scheme of the path "${path}" signs the public address`,
      });
    if (made.verifier.wantsVerifyToken && auth.verifyToken === undefined)
      issues.push({
        path: `${at}.verifyToken`,
        message: "is required: the sender shows it in its handshake",
      });
    verifiers.set(path, made.verifier);
  }
  return { verifiers, issues, files };
}
