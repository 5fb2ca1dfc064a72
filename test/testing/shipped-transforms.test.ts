import { resolve } from "node:path";
import { testTransform } from "../../src/testing/transform.ts";

const TRANSFORMS = resolve(import.meta.dirname, "../../transforms");
const RUN = {
  conclusion: "failure",
  name: "build",
  head_branch: "main",
  workflow_id: 9,
  html_url: "https://ci.example/1",
};

testTransform("ci-failures", {
  module: resolve(TRANSFORMS, "ci-failures.ts"),
  samples: [
    {
      name: "tells of a failure",
      payload: { workflow_run: RUN, repository: { full_name: "a/b" } },
      expect: { text: ["CI failed: build on main (failure)"], sessionKey: "hook:ci:9" },
    },
    {
      name: "skips a success",
      payload: { workflow_run: { ...RUN, conclusion: "success" } },
      expect: null,
    },
  ],
});

testTransform("alert-digest", {
  module: resolve(TRANSFORMS, "alert-digest.ts"),
  samples: [
    {
      name: "makes one message of a group",
      payload: {
        groupKey: "g",
        alerts: [
          {
            status: "firing",
            labels: { alertname: "DiskFull", severity: "page" },
            annotations: {},
          },
        ],
      },
      expect: { text: ["DiskFull"], sessionKey: "hook:alerts:g" },
    },
  ],
});
