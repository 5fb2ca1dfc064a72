import type { DeliveryDetail } from "../../../../src/operate/records/views.ts";
import { ask } from "../../api.ts";
import { Messages } from "../../messages.tsx";
import { useAction, useResource } from "../../resource.ts";
import { filter, href } from "../../router.ts";
import { Button, Facts, Id, Section, Status, Time } from "../../ui/basic.tsx";
import { confirmed } from "../../ui/dialog.tsx";
import { plural, visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { toast, toastError } from "../../ui/toast.tsx";

/** Sends again what did not arrive. Of a delivery that is unknown it asks first: it may have arrived. */
function Retry({ delivery, retried }: { delivery: DeliveryDetail; retried(): void }) {
  const { id, status, chunks, sentChunks, files, sentFiles } = delivery;
  const left = chunks - sentChunks + files - sentFiles;
  const send = async (query = ""): Promise<void> => {
    const answer = await ask<{ delivery: DeliveryDetail }>(
      `/deliveries/${encodeURIComponent(id)}/retry${query}`,
      { method: "POST" },
    );
    toast(`The delivery is ${answer.delivery.status} now.`);
    retried();
  };
  const [retry, retrying] = useAction(async () => {
    const text = `The channel could not say whether it has the message: it may arrive twice. ${plural(left, "message")} to send.`;
    if (status === "unknown" && !(await confirmed("Send it again?", text, "Retry"))) return;
    await send();
  }, toastError);
  const [goOn, goingOn] = useAction(async () => {
    const next =
      left > 1 ? `${plural(left - 1, "more message")} to send.` : "Nothing else is left to send.";
    if (
      await confirmed(
        "Is it in the chat?",
        `The message in doubt is not sent again. ${next}`,
        "It arrived",
      )
    )
      await send("?arrived=1");
  }, toastError);
  if (status === "pending" || status === "delivered") return null;
  return (
    <div class="actions">
      {status === "unknown" ? (
        <Button
          busy={goingOn}
          onClick={goOn}
          title="You have seen the message in doubt in the chat: go on after it"
        >
          It arrived
        </Button>
      ) : null}
      <Button busy={retrying} onClick={retry}>
        Retry
      </Button>
    </div>
  );
}

function About({ delivery }: { delivery: DeliveryDetail }) {
  const { error, messageIds, nextAt, endedAt, approvalId } = delivery;
  return (
    <Facts
      pairs={[
        [
          "error",
          error ? <span class="bad">{`${error.code}: ${visibleText(error.message)}`}</span> : null,
          true,
        ],
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
        ["to", delivery.to === null ? null : visibleText(delivery.to)],
        ["thread", delivery.thread === null ? null : visibleText(delivery.thread)],
        [
          "run",
          delivery.runId === "" ? null : (
            <Id id={delivery.runId} to={href("runs", delivery.runId)} />
          ),
        ],
        [
          "approval",
          approvalId === null ? null : <Id id={approvalId} to={href("approvals", approvalId)} />,
        ],
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
        ["next try", nextAt === null ? null : <Time iso={nextAt} planned />],
        ["ended", endedAt === null ? null : <Time iso={endedAt} />],
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
