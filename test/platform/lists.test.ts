import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { platformWorld, readAnswer, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
beforeAll(async () => {
  world = await platformWorld({
    agents: [
      {
        id: "ops",
        name: "Operations",
        description: "Watches.",
        instructions: "SECRET-PROMPT",
        knowledge: "auto",
      },
      { id: "sales" },
      { id: "legal", knowledge: "off" },
    ],
  });
});
afterAll(() => world.close());

const get = async (path: string) => readAnswer(await world.ask(path));

describe("/v1/models", () => {
  it("has the agents in the shape that front ends read", async () => {
    const { body } = await get("/v1/models");
    expect(body).toEqual({
      object: "list",
      data: ["ops", "sales", "legal"].map((id) => ({
        id,
        object: "model",
        created: expect.any(Number),
        owned_by: "rouse",
      })),
    });
    expect(body.data[0].created).toBeGreaterThan(1_600_000_000);
  });

  it("has each by itself", async () => {
    expect((await get("/v1/models/sales")).body).toMatchObject({ id: "sales", object: "model" });
    expect((await get("/v1/models/agent:sales")).body.id).toBe("sales");
    const { status, body } = await get("/v1/models/nobody");
    expect([status, body.error.code, body.error.param]).toEqual([404, "model_not_found", "model"]);
  });
});

describe("/v1/agents", () => {
  it("has what a key's user may know, and no instructions", async () => {
    const { body } = await get("/v1/agents");
    expect(body.data[0]).toEqual({
      id: "ops",
      object: "agent",
      name: "Operations",
      description: "Watches.",
      model: "local/big",
      capabilities: ["chat", "streaming", "client_tools", "images"],
      knowledge: "auto",
      created: expect.any(Number),
    });
    expect(body.data[1]).toMatchObject({ name: "sales", description: null, knowledge: "tool" });
    expect([body.object, body.has_more]).toEqual(["list", false]);
    expect(JSON.stringify(body)).not.toMatch(/SECRET-PROMPT|provider-key|127\.0\.0\.1/);
  });
});

describe("the published document", () => {
  it("has every route, with the shape of its errors", async () => {
    const { paths, components } = (await (await fetch(`${world.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { responses: object; security: unknown }>>;
      components: { schemas: object };
    };
    const own = Object.entries(paths).filter(([path]) => path.startsWith("/v1/"));
    expect(own.map(([path, methods]) => `${Object.keys(methods).join()} ${path}`)).toEqual([
      "post /v1/chat/completions",
      "post /v1/responses",
      "get /v1/responses/{id}",
      "get /v1/models",
      "get /v1/models/{id}",
      "get /v1/agents",
      "get /v1/approvals",
      "get,post /v1/approvals/{id}",
      "post /v1/knowledge/upload",
      "get /v1/knowledge/documents",
      "get,delete /v1/knowledge/documents/{id}",
      "post /v1/knowledge/search",
    ]);
    for (const [, methods] of own)
      for (const operation of Object.values(methods)) {
        expect(Object.keys(operation.responses)).toEqual(
          expect.arrayContaining(["200", "4XX", "5XX"]),
        );
        expect(operation.security).toEqual([{ apiKey: [] }]);
      }
    expect(components.schemas).toHaveProperty("PlatformError");
  });
});
