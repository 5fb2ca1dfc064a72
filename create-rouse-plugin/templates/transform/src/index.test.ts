import { testTransform } from "rouse/testing";
import plugin from "./index.ts";

testTransform("acme/orders", {
  module: plugin.transforms?.["orders"] ?? "",
  samples: [
    {
      name: "tells of a large order",
      payload: { order: { id: "o-1", total: 1200 } },
      expect: { text: ["Large order o-1: 1200"], sessionKey: "hook:acme:o-1" },
    },
    { name: "skips a small order", payload: { order: { id: "o-2", total: 10 } }, expect: null },
  ],
});
