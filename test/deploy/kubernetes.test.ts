import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { Deployment, type IDeployment } from "kubernetes-models/apps/v1";
import { NetworkPolicy, type INetworkPolicy } from "kubernetes-models/networking.k8s.io/v1";
import { PodDisruptionBudget, type IPodDisruptionBudget } from "kubernetes-models/policy/v1";
import { ConfigMap, Service, type IConfigMap, type IService } from "kubernetes-models/v1";
import { createLogger } from "../../src/core/log.ts";
import { createGateway } from "../gateway.ts";
import {
  AFTER_DRAIN_SECONDS,
  checked,
  deployed,
  filesIn,
  misunderstood,
  ROOT,
  settle,
} from "./world.ts";

const TEXT = deployed("kubernetes/rouse.yaml");
const documents = parseAllDocuments(TEXT, { merge: true }).map(
  (document) => document.toJS() as { kind: string; metadata: { name: string } },
);
const one = <T>(kind: string, name: string): T =>
  documents.find((found) => found.kind === kind && found.metadata.name === name) as T;
const deployment = one<IDeployment>("Deployment", "rouse");
const pod = deployment.spec?.template.spec;
const container = pod?.containers[0];
const config = one<IConfigMap>("ConfigMap", "rouse-config").data?.["rouse.json5"] ?? "";
const SECRETS_AT = "/run/secrets/rouse";
/** The command comes with the drivers of a shared database. */
const MODELS = { Deployment, PodDisruptionBudget, ConfigMap, Service, NetworkPolicy };

let drainSeconds: number;
let ports: { http: number; admin: number | undefined };
beforeAll(async () => {
  const place = settle(config, SECRETS_AT, {
    "hook-token": "a-hook-token-of-24-bytes",
    "gateway-token": "a-gateway-token-of-24-b",
    "store-url": "postgres://rouse:p@db:5432/rouse",
  });
  const { code, err, config: read } = await checked(place.file, {});
  place.remove();
  expect([code, err]).toEqual([0, ""]);
  drainSeconds = read.gateway.drainSeconds;
  ports = { http: read.gateway.port, admin: read.gateway.adminPort };
});

describe("the manifest is what Kubernetes understands", () => {
  it.each(
    documents.map((document) => [`${document.kind} ${document.metadata.name}`, document] as const),
  )("%s", (_name, document) => {
    const Model = MODELS[document.kind as keyof typeof MODELS];
    expect(() => new Model(document as never).validate()).not.toThrow();
  });

  it("names no field that there is not", async () => {
    const dir = mkdtempSync(join(tmpdir(), "rouse-manifest-"));
    const from: Record<string, string> = {
      Deployment: "apps/v1",
      PodDisruptionBudget: "policy/v1",
      ConfigMap: "v1",
      Service: "v1",
      NetworkPolicy: "networking.k8s.io/v1",
    };
    const lines = documents.map(
      (document, index) =>
        `import type { I${document.kind} as T${index} } from "kubernetes-models/${from[document.kind]}";\nexport const d${index}: T${index} = ${JSON.stringify(document)};\n`,
    );
    try {
      symlinkSync(join(ROOT, "node_modules"), join(dir, "node_modules"));
      writeFileSync(join(dir, "package.json"), '{ "type": "module" }');
      writeFileSync(join(dir, "manifest.ts"), lines.join(""));
      const options = {
        module: "nodenext",
        target: "es2024",
        strict: true,
        noEmit: true,
        skipLibCheck: true,
        types: [],
      };
      writeFileSync(
        join(dir, "tsconfig.json"),
        JSON.stringify({ compilerOptions: options, files: ["manifest.ts"] }),
      );
      const tsc = [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", dir];
      const { stdout } = await promisify(execFile)(process.execPath, tsc).catch(
        (error: { stdout: string }) => error,
      );
      expect(stdout).toBe("");
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });

  it("the operator's port is open to Prometheus alone, the other one to all", () => {
    const { podSelector, ingress = [] } = one<INetworkPolicy>("NetworkPolicy", "rouse").spec ?? {};
    expect(podSelector?.matchLabels).toEqual(deployment.spec?.template.metadata?.labels);
    const open = ingress.map(({ from, ports: list = [] }) => [
      list.map(({ port }) => port),
      from === undefined,
    ]);
    expect(open).toEqual([
      [["http"], true],
      [["admin"], false],
    ]);
  });

  it("its parts find each other", () => {
    const labels = deployment.spec?.template.metadata?.labels ?? {};
    const named = new Set(container?.ports?.map(({ name }) => name));
    expect(deployment.spec?.selector.matchLabels).toEqual(labels);
    for (const name of ["rouse", "rouse-admin"]) {
      const service = one<IService>("Service", name).spec;
      expect(service?.selector).toEqual(labels);
      for (const { targetPort } of service?.ports ?? []) expect(named).toContain(targetPort);
    }
    const budget = one<IPodDisruptionBudget>("PodDisruptionBudget", "rouse").spec;
    expect(budget?.selector?.matchLabels).toEqual(labels);
    expect(Number(budget?.maxUnavailable)).toBeLessThan(deployment.spec?.replicas ?? 0);
    const volumes = new Set(pod?.volumes?.map(({ name }) => name));
    for (const { volumeMounts } of [...(pod?.initContainers ?? []), ...(pod?.containers ?? [])])
      for (const { name } of volumeMounts ?? []) expect(volumes).toContain(name);
    expect(pod?.volumes?.find(({ name }) => name === "config")?.configMap?.name).toBe(
      "rouse-config",
    );
  });
});

describe("what it names is there", () => {
  it("ports", () => {
    expect(
      Object.fromEntries(
        container?.ports?.map(({ name, containerPort }) => [name, containerPort]) ?? [],
      ),
    ).toEqual(ports);
  });

  it("every secret that the config reads is made by the command above, and mounted", () => {
    const made = [...TEXT.matchAll(/--from-literal=([\w-]+)=/g)].map(
      ([, key]) => `${SECRETS_AT}/${key}`,
    );
    expect(filesIn(config).toSorted()).toEqual(made.toSorted());
    const secret = pod?.volumes?.find(({ name }) => name === "secrets")?.secret;
    expect(TEXT).toContain(`kubectl create secret generic ${secret?.secretName} `);
    expect(container?.volumeMounts?.find(({ name }) => name === "secrets")?.mountPath).toBe(
      SECRETS_AT,
    );
    // Readable for the group that fsGroup makes of the user's, and for no one else.
    expect([secret?.defaultMode, pod?.securityContext?.fsGroup]).toEqual([
      0o440,
      pod?.securityContext?.runAsGroup,
    ]);
  });

  it("the command and its flags", async () => {
    expect(await misunderstood(container?.args ?? ["none"])).toEqual([]);
  });

  it("the command that changes the tables", async () => {
    expect(await misunderstood(pod?.initContainers?.[0]?.args ?? ["none"])).toEqual([]);
  });

  it("a root that is read only, no rights, and a place for all that is written", () => {
    for (const each of [...(pod?.initContainers ?? []), ...(pod?.containers ?? [])])
      expect(each.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
    expect(pod?.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 10001 });
    const dockerfile = deployed("container/Dockerfile");
    expect(dockerfile).toContain(
      `USER ${pod?.securityContext?.runAsUser}:${pod?.securityContext?.runAsGroup}`,
    );
    const mounted = container?.volumeMounts?.map(({ mountPath }) => mountPath) ?? [];
    for (const [, folder] of dockerfile.matchAll(/(?:ROUSE_STATE_DIR|XDG_CACHE_HOME)=(\S+)/g))
      expect(mounted.some((mount) => folder?.startsWith(`${mount}/`))).toBe(true);
    expect(mounted).toContain("/tmp");
  });
});

describe("it stops without losing anything", () => {
  it("the grace period is longer than preStop, drain and what follows it", () => {
    const [program, seconds] = container?.lifecycle?.preStop?.exec?.command ?? [];
    expect(program).toBe("sleep");
    expect(pod?.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
      Number(seconds) + drainSeconds + AFTER_DRAIN_SECONDS,
    );
    // preStop lasts until the readiness probe would have noticed, too.
    const { periodSeconds = 0, failureThreshold = 0 } = container?.readinessProbe ?? {};
    expect(Number(seconds)).toBeGreaterThanOrEqual(periodSeconds * failureThreshold);
  });

  it("the probes' routes: alive while it drains, ready until then", () => {
    const { livenessProbe, readinessProbe, startupProbe } = container ?? {};
    const paths = [livenessProbe, startupProbe, readinessProbe].map((one) => one?.httpGet?.path);
    expect(paths).toEqual(["/livez", "/livez", "/readyz"]);
  });
});

/** Changes a ConfigMap or Secret as the kubelet does: a new folder, and one rename that switches to it. */
function project(dir: string, version: string, files: Record<string, string>): void {
  mkdirSync(join(dir, `..${version}`), { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(dir, `..${version}`, name), text);
    if (version === "1") symlinkSync(join("..data", name), join(dir, name));
  }
  symlinkSync(`..${version}`, join(dir, "..data_tmp"));
  renameSync(join(dir, "..data_tmp"), join(dir, "..data"));
}

describe("what changes while it runs", () => {
  const dir = mkdtempSync(join(tmpdir(), "rouse-projected-"));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  it("a changed ConfigMap, and a token rotated in the Secret, are taken over", async () => {
    const [etc, secrets] = [join(dir, "etc"), join(dir, "secrets")];
    const secret = (hookToken: string): Record<string, string> => ({
      "hook-token": hookToken,
      "gateway-token": "a-gateway-token-of-24-b",
      "store-url": `sqlite:${dir}/rouse.db`,
    });
    const text = config.replaceAll(SECRETS_AT, secrets).replace(/adminPort: \d+/, "adminPort: 0");
    project(secrets, "1", secret("the-first-hook-token-0000"));
    project(etc, "1", { "rouse.json5": text });
    const gateway = await createGateway({
      configFile: join(etc, "rouse.json5"),
      cwd: etc,
      env: { ROUSE_STATE_DIR: join(dir, "state") },
      host: "127.0.0.1",
      port: 0,
      workers: false,
      log: createLogger("silent"),
      print: () => undefined,
    });
    const { url } = await gateway.start();
    const statusOf = async (path: string, token: string, body: object): Promise<number> => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      return (await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) }))
        .status;
    };
    const until = async (status: number, ...call: Parameters<typeof statusOf>): Promise<number> => {
      let found = 0;
      for (let i = 0; i < 200 && found !== status; i++) {
        found = await statusOf(...call);
        await new Promise((next) => setTimeout(next, 50));
      }
      return found;
    };
    try {
      expect(await statusOf("/hooks/wake", "the-first-hook-token-0000", { text: "x" })).toBe(200);
      project(secrets, "2", secret("the-second-hook-token-000"));
      expect(await until(200, "/hooks/wake", "the-second-hook-token-000", { text: "x" })).toBe(200);
      expect(await statusOf("/hooks/wake", "the-first-hook-token-0000", { text: "x" })).toBe(401);
      const mapping =
        '{ id: "new", match: { path: "new" }, action: "wake", textTemplate: "{{payload.text}}" }';
      project(etc, "2", {
        "rouse.json5": text.replace("enabled: true,", `enabled: true, mappings: [${mapping}],`),
      });
      expect(await until(200, "/hooks/new", "the-second-hook-token-000", { text: "y" })).toBe(200);
    } finally {
      await gateway.stop();
    }
  });
});
