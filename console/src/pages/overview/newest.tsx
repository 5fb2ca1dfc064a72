import type { ChannelView, listChannels } from "../../../../src/operate/people/channels.ts";
import type { Answer } from "../../api.ts";
import { FirstHook } from "../../first-hook.tsx";
import { useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { Section, Status, Time } from "../../ui/basic.tsx";
import { Prose } from "../../ui/prose.tsx";
import { visibleText } from "../../ui/format.ts";
import { Empty, LateSkeleton, Loaded } from "../../ui/states.tsx";
import type { EventRow } from "../events/types.ts";
import type { GatewayStatus } from "./types.ts";

const SHOWN = 6;

/** The hooks that came in last, each a link to why it had its outcome. */
export function NewestHooks() {
  const newest = useResource<{ events: EventRow[] }>(`/events?limit=${SHOWN}`, { live: true });
  return (
    <Section title="Newest hooks" actions={<a href={href("events")}>All events</a>}>
      <Loaded resource={newest} lines={3}>
        {({ events }) =>
          events.length === 0 ? (
            <FirstHook>No hook has come in yet. This line sends one.</FirstHook>
          ) : (
            <ul class="overview-list">
              {events.map((row) => (
                <li key={row.id}>
                  <Status word={row.outcome} />{" "}
                  <a href={href("events", row.id)}>{visibleText(row.mapping ?? row.path)}</a>{" "}
                  <Prose text={row.text} />{" "}
                  <span class="quiet">
                    <Time iso={row.receivedAt} />
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Section>
  );
}

/** The state of a channel, as far as the gateway knows it without asking the vendor. */
function toState(
  { id, receives }: ChannelView,
  { breakers, services }: GatewayStatus,
): { word: string; tone: "good" | "bad" | "quiet"; text: string } {
  const service = services.find((state) => state.id === id);
  if (breakers.some(({ of, state }) => of === id && state !== "closed"))
    return { word: "away", tone: "bad", text: "its last sends failed, and deliveries wait" };
  if (service && !service.ok) return { word: "failing", tone: "bad", text: service.message };
  if (service) return { word: "connected", tone: "good", text: service.message };
  return {
    word: "configured",
    tone: "quiet",
    text: receives ? "messages come in by webhook" : "it only sends",
  };
}

/** Each channel with its state, and the way to its test message. */
export function Channels({ status }: { status: GatewayStatus | undefined }) {
  const channels = useResource<Answer<typeof listChannels>>("/channels");
  return (
    <Section title="Channels" actions={<a href={href("system", "channels")}>Check and test</a>}>
      <Loaded resource={channels} lines={2}>
        {({ channels: known }) => {
          const rows = known.filter(({ loaded, name, id }) => loaded && name === id);
          // The states of channels are part of the gateway's status.
          if (!status) return <LateSkeleton lines={2} />;
          if (rows.length === 0)
            return <Empty command="rouse channels">No channel is configured.</Empty>;
          return (
            <ul class="overview-list">
              {rows.map((row) => {
                const { word, tone, text } = toState(row, status);
                return (
                  <li key={row.id}>
                    <Status word={word} tone={tone} />{" "}
                    <a href={href("system", "channels")}>{row.id}</a> {visibleText(text)}
                  </li>
                );
              })}
            </ul>
          );
        }}
      </Loaded>
    </Section>
  );
}
