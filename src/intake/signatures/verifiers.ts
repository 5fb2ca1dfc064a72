import type { SchemeAuth } from "../../config/schema/mapping.ts";
import type { Issue } from "../../core/errors.ts";
import { compileVerifier, type VerifierOptions } from "./compile.ts";
import { findSchemeClashes, loadScheme, type SchemeSources } from "./load.ts";
import { checkHandshakes, findSchemeProblem } from "./prove.ts";
import type { Verifier } from "./types.ts";

/** A path whose callers sign. */
export interface SignedPath {
  path: string;
  auth: SchemeAuth;
  /** The path of `auth` in the config. */
  at: string;
  /** The methods whose requests are events of the path. Default: POST. */
  methods?: readonly string[];
}

export interface Verifiers {
  /** By path. */
  verifiers: ReadonlyMap<string, Verifier>;
  issues: Issue[];
  /** Scheme files, whose change means a new snapshot. */
  files: string[];
}

/** Stands in for a secret that is still `pending`: text, hex and base64 alike. */
const STAND_IN = "0123456789abcdef0123456789abcdef";

/** Finds out whether a scheme can work: its sender's requests verify, and each of its handshakes can be reached. */
function proveScheme(
  options: VerifierOptions,
  { path, at, methods = ["POST"] }: SignedPath,
  publicUrl = "http://127.0.0.1",
): Issue[] {
  const { scheme, secrets } = options;
  const schemeAt = `${at}.scheme`;
  const issues = checkHandshakes(scheme, schemeAt, methods);
  if (issues.length > 0) return issues;
  const usable = secrets.filter((secret) => secret !== "pending");
  const made = compileVerifier({ ...options, secrets: usable.length > 0 ? usable : [STAND_IN] });
  const problem =
    made.ok &&
    findSchemeProblem(scheme, made.verifier, `${publicUrl.replace(/\/$/, "")}/hooks/${path}`);
  return problem ? [{ path: schemeAt, message: problem }] : [];
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
  for (const signed of paths) {
    const { path, auth, at } = signed;
    const loaded =
      typeof auth.scheme === "string"
        ? loadScheme(schemes, auth.scheme, `${at}.scheme`)
        : { ok: true as const, scheme: auth.scheme, file: undefined };
    if (!loaded.ok) {
      issues.push(...loaded.issues);
      continue;
    }
    if (loaded.file !== undefined) files.push(loaded.file);
    const options: VerifierOptions = {
      scheme: loaded.scheme,
      secrets: auth.secret === undefined ? [] : [auth.secret].flat(),
      at: `${at}.secret`,
      verifyToken: auth.verifyToken,
      duplicate: auth.duplicate,
      certificate: { topics: [auth.topicArn ?? []].flat(), fetch: fetchFrom },
      oidc: { audience: auth.audience ?? "", email: auth.email, jwks: auth.jwks, fetch: fetchFrom },
    };
    const made = compileVerifier(options);
    if (!made.ok) {
      issues.push(...made.issues);
      continue;
    }
    issues.push(...proveScheme(options, signed, publicUrl));
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
