import { createCapability, testRoutes } from "rouse/testing";
import plugin from "./index.ts";

testRoutes("acme", async () => ({
  id: plugin.id,
  routes: await createCapability(plugin, "routes", { greeting: "Welcome" }),
  samples: [
    { name: "the greeting", path: "/greeting", expect: { status: 200, text: ["Welcome"] } },
  ],
}));
