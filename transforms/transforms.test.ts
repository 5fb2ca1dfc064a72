import { describe, expect, it } from "vitest";
import ciFailures from "./ci-failures.ts";
import alertDigest from "./alert-digest.ts";

const input = (payload: object) => ({ payload, headers: {}, query: {}, path: "x", now: 0 });

describe("ci-failures", () => {
  const run = {
    conclusion: "failure",
    name: "build",
    head_branch: "main",
    workflow_id: 9,
    html_url: "https://ci.example/1",
  };
  it("tells of a failure and skips a success", () => {
    expect(ciFailures(input({ workflow_run: run, repository: { full_name: "a/b" } }))).toEqual({
      name: "CI a/b",
      sessionKey: "hook:ci:9",
      message: "CI failed: build on main (failure)\nhttps://ci.example/1",
    });
    expect(ciFailures(input({ workflow_run: { ...run, conclusion: "success" } }))).toBeNull();
    expect(ciFailures(input({ zen: "no run at all" }))).toBeNull();
  });
});

describe("alert-digest", () => {
  const alert = (status: string) => ({
    status,
    labels: { alertname: "DiskFull", severity: "page" },
    annotations: { summary: "disk is at 97 %" },
  });
  it("makes one message of a group", () => {
    expect(
      alertDigest(input({ groupKey: "g", alerts: [alert("firing"), alert("resolved")] })),
    ).toEqual({
      name: "1 alert",
      sessionKey: "hook:alerts:g",
      message: "Firing:\n- DiskFull (page): disk is at 97 %",
    });
  });
  it("only notes what is resolved, and skips an empty group", () => {
    expect(alertDigest(input({ alerts: [alert("resolved")] }))).toEqual({
      action: "wake",
      wakeMode: "next-heartbeat",
      text: "Resolved: DiskFull",
    });
    expect(alertDigest(input({ alerts: [] }))).toBeNull();
  });
});
