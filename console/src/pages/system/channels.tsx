import { useState } from "preact/hooks";
import type {
  ChannelView,
  listChannels,
  probeChannels,
  sendTestMessage,
} from "../../../../src/operate/people/channels.ts";
import { ask, type Answer } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { Button, Section, Status, Time } from "../../ui/basic.tsx";
import { FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { toast, toastError } from "../../ui/toast.tsx";
import { Pairings } from "./pairings.tsx";
import { LinkedPeople } from "./people.tsx";

const DEFAULT_TEXT = "This is a test from Rouse: the channel works.";

function TestMessage({ channel, onClose }: { channel: ChannelView; onClose(): void }) {
  const [to, setTo] = useState(channel.defaultTo ?? "");
  const [text, setText] = useState(DEFAULT_TEXT);
  const [send, busy] = useAction(async () => {
    const body = { text, ...(to.trim() === "" ? {} : { to: to.trim() }) };
    const sent = await ask<Answer<typeof sendTestMessage>>(
      `/channels/${encodeURIComponent(channel.id)}/test`,
      {
        method: "POST",
        body,
      },
    );
    if (sent.result.status !== "sent")
      return toast(`Not sent to ${sent.to}: ${visibleText(sent.result.reason)}`, { tone: "bad" });
    toast(`Sent to ${sent.to}.`);
    onClose();
  }, toastError);
  return (
    <FormDialog
      title={`Test message to ${channel.name}`}
      action="Send"
      busy={busy}
      onSubmit={send}
      onClose={onClose}
    >
      <TextField
        label="To"
        value={to}
        onInput={setTo}
        hint="Empty: the channel's defaultTo. The message is sent immediately, bypassing the outbox."
      />
      <TextField label="Text" value={text} onInput={setText} lines={3} required />
    </FormDialog>
  );
}

function Probes() {
  const probes = useResource<Answer<typeof probeChannels>>("/channels/status");
  return (
    <Section title="Reach" actions={<Button onClick={probes.reload}>Check again</Button>}>
      <Loaded resource={probes}>
        {({ channels: rows }) => (
          <Table
            empty={<Empty command="rouse channels">No channel is configured.</Empty>}
            label="Reach of channels"
            rows={rows}
            rowId={(row) => row.id}
            columns={[
              { head: "Channel", cell: (row) => row.id },
              {
                head: "Reach",
                cell: ({ reach }) =>
                  reach ? <Status word={reach.ok ? "ok" : "failing"} /> : "cannot tell",
              },
              {
                head: "Receives",
                cell: ({ receive }) =>
                  receive ? <Status word={receive.ok ? "ok" : "failing"} /> : "sends only",
              },
              { head: "Away since", cell: ({ away }) => <Time iso={away?.since} /> },
              {
                head: "Reports",
                grow: true,
                cell: ({ reach, receive, nobody }) =>
                  visibleText(
                    [
                      reach?.message,
                      receive?.message,
                      nobody ? "allowFrom is empty: no message is answered" : undefined,
                    ]
                      .filter((part) => part !== undefined)
                      .join("; ") || "–",
                  ),
              },
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
}

/** Other names of a channel have rows of their own in the answer. */
const isChannel = ({ name, id }: ChannelView): boolean => name === id;

function Named({ channel, all }: { channel: ChannelView; all: readonly ChannelView[] }) {
  const others = all
    .filter((row) => row.id === channel.id && !isChannel(row))
    .map(({ name }) => name);
  return (
    <>
      {channel.id} {others.length === 0 ? null : <span class="quiet">or {others.join(", ")}</span>}
    </>
  );
}

/** The channels: what is configured, whether each can be reached, and a test message. */
export function Channels() {
  const channels = useResource<Answer<typeof listChannels>>("/channels");
  const [tested, setTested] = useState<ChannelView | null>(null);
  return (
    <>
      <Section title="Channels">
        <Loaded resource={channels}>
          {({ channels: rows }) => (
            <Table
              label="List of channels"
              rows={rows
                .filter(isChannel)
                .toSorted((one, other) => Number(other.loaded) - Number(one.loaded))}
              rowId={(row) => row.id}
              columns={[
                { head: "Name", cell: (row) => <Named channel={row} all={rows} /> },
                {
                  head: "Configured",
                  cell: (row) => (
                    <Status word={row.loaded ? "yes" : "no"} tone={row.loaded ? "good" : "quiet"} />
                  ),
                },
                { head: "Default recipient", cell: (row) => row.defaultTo ?? "–" },
                {
                  head: "May write to it",
                  minor: true,
                  cell: (row) => row.mayWrite ?? "–",
                },
                {
                  head: "Agents",
                  grow: true,
                  cell: (row) => row.agents.map(({ agent }) => agent).join(", ") || "–",
                },
                {
                  head: "Test",
                  cell: (row) =>
                    row.loaded ? (
                      <Button onClick={() => setTested(row)}>Send a test message</Button>
                    ) : null,
                },
              ]}
            />
          )}
        </Loaded>
      </Section>
      <Probes />
      <Pairings />
      <LinkedPeople />
      {tested ? <TestMessage channel={tested} onClose={() => setTested(null)} /> : null}
    </>
  );
}
