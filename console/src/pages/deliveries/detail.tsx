import type { DeliveryDetail } from "../../../../src/operate/records/views.ts";
import { ActionButton } from "../../action-button.tsx";
import { ask } from "../../api.ts";
import { Messages } from "../../messages.tsx";
import { useResource } from "../../resource.ts";
import { filter } from "../../router.ts";
import { Facts, Id, Section, Status, Time } from "../../ui/basic.tsx";
import { plural, visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { renderProblem, toLink } from "../../ui/with-ids.tsx";

/** Sends again what did not arrive. Of a delivery that is unknown it asks first: it may have arrived. */
function Retry({ delivery, retried }: { delivery: DeliveryDetail; retried(): void }) {
  const { id, status, chunks, sentChunks, files, sentFiles } = delivery;
  const left = chunks - sentChunks + files - sentFiles;
  const next =
    left > 1 ? `${plural(left - 1, "more message")} to send.` : "Nothing else is left to send.";
  const send = (query: string) => ({
    send: () =>
      ask<{ delivery: DeliveryDetail }>(`/deliveries/${encodeURIComponent(id)}/retry${query}`, {
        method: "POST",
      }),
    done: (answer: { delivery: DeliveryDetail }) =>
      `The delivery is ${answer.delivery.status} now.`,
    onDone: retried,
  });
  if (status === "pending" || status === "delivered") return null;
  return (
    <div class="actions">
      {status === "unknown" ? (
        <ActionButton
          label="It arrived"
          title="You have seen the message in doubt in the chat: go on after it"
          question={["Is it in the chat?", `The message in doubt is not sent again. ${next}`]}
          {...send("?arrived=1")}
        />
      ) : null}
      <ActionButton
        label="Retry"
        question={
          status === "unknown"
            ? [
                "Send it again?",
                `The channel could not say whether it has the message: it may arrive twice. ${plural(left, "message")} to send.`,
              ]
            : undefined
        }
        {...send("")}
      />
    </div>
  );
}

function About({ delivery }: { delivery: DeliveryDetail }) {
  const { error, messageIds, nextAt, endedAt, approvalId } = delivery;
  return (
    <Facts
      pairs={[
        ["error", renderProblem(error), true],
        [
          "channel",
          <button
            type="button"
            class="link"
            title="Only this channel"
            onClick={() => filter({ channel: delivery.channel })}
          >
            {delivery.channel}
          </button>,
        ],
        ["to", delivery.to && visibleText(delivery.to)],
        ["thread", delivery.thread && visibleText(delivery.thread)],
        ["run", toLink(delivery.runId)],
        ["approval", toLink(approvalId)],
        ["sent", `${delivery.sentChunks} of ${delivery.chunks}`],
        ["files", delivery.files === 0 ? null : `${delivery.sentFiles} of ${delivery.files}`],
        [
          "warning",
          delivery.warnings.length === 0 ? null : (
            <span class="bad">{visibleText(delivery.warnings.join("; "))}</span>
          ),
        ],
        ["tries", delivery.attempts],
        [
          "message ids",
          messageIds.length === 0 ? null : (
            <span class="mono">{visibleText(messageIds.join(", "))}</span>
          ),
        ],
        ["created", <Time iso={delivery.createdAt} />],
        ["next try", nextAt && <Time iso={nextAt} planned />],
        ["ended", endedAt && <Time iso={endedAt} />],
      ]}
    />
  );
}

/** A delivery with its messages, and which of them are sent. */
export function Detail({ id, retried }: { id: string; retried(): void }) {
  const resource = useResource<{ delivery: DeliveryDetail }>(
    `/deliveries/${encodeURIComponent(id)}`,
    { live: true },
  );
  return (
    <Loaded resource={resource}>
      {({ delivery }) => (
        <>
          <header class="deliveries-head">
            <h2>Delivery</h2>
            <Status word={delivery.status} />
            <Id id={delivery.id} />
            <Retry
              delivery={delivery}
              retried={() => {
                resource.reload();
                retried();
              }}
            />
          </header>
          <About delivery={delivery} />
          <Section title="Messages">
            <Messages delivery={delivery} />
          </Section>
        </>
      )}
    </Loaded>
  );
}
