import type { Json, Transform } from "#transform";

const title = (alert: Json): string => alert.labels?.alertname ?? "alert";

/** Alertmanager and Grafana send alerts in groups: makes one message of a group, and only a note where all is resolved. */
const transform: Transform = ({ payload }) => {
  const alerts: Json[] = Array.isArray(payload?.alerts) ? payload.alerts : [];
  if (alerts.length === 0) return null;
  const firing = alerts.filter((alert) => alert.status !== "resolved");
  if (firing.length === 0)
    return {
      action: "wake",
      wakeMode: "next-heartbeat",
      text: `Resolved: ${[...new Set(alerts.map(title))].join(", ")}`,
    };
  const lines = firing.map(
    (alert) =>
      `- ${title(alert)} (${alert.labels?.severity ?? "no severity"}): ${alert.annotations?.summary ?? alert.annotations?.description ?? "no summary"}`,
  );
  return {
    name: `${firing.length} alert${firing.length === 1 ? "" : "s"}`,
    sessionKey: `hook:alerts:${String(payload.groupKey ?? "all").slice(0, 150)}`,
    message: [`Firing:`, ...lines, payload.externalURL].filter(Boolean).join("\n"),
  };
};

export default transform;
