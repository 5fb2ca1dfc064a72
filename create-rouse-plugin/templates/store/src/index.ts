import { definePlugin } from "rouse/plugin";
import { createMemoryStore } from "./memory.ts";

export default definePlugin({ id: "acme", store: createMemoryStore("acme") });
