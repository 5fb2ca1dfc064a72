import { useState } from "preact/hooks";
import { Button, Section } from "../../ui/basic.tsx";
import { confirmed, Dialog } from "../../ui/dialog.tsx";
import { Search, Select, Tabs, TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/toast.tsx";

function Buttons() {
  return (
    <p class="components-row">
      <Button kind="primary">Save</Button>
      <Button>Cancel</Button>
      <Button kind="danger">Delete</Button>
      <Button kind="plain">Plain</Button>
      <Button busy>Saving</Button>
      <Button disabled>Not now</Button>
      <a href="#/components">A link</a> <kbd>Ctrl S</kbd>
    </p>
  );
}

function Windows() {
  const [open, setOpen] = useState(false);
  return (
    <p class="components-row">
      <Button onClick={() => setOpen(true)}>Open a dialog</Button>
      <Button
        onClick={() => void confirmed("Delete it?", <p>This cannot be undone.</p>, "Delete", true)}
      >
        Ask a question
      </Button>
      <Button
        onClick={() =>
          toast("Replayed 3 events.", { undo: () => toast("Taken back.", { tone: "quiet" }) })
        }
      >
        Show a toast
      </Button>
      <Button onClick={() => toast("The gateway does not answer.", { tone: "bad" })}>
        Show an error
      </Button>
      {open ? (
        <Dialog title="A dialog" onClose={() => setOpen(false)}>
          <p class="body">Escape closes it, and the focus goes back to the button.</p>
        </Dialog>
      ) : null}
    </p>
  );
}

/** Buttons, tabs, choices and text fields. */
export function Fields({ theme }: { theme: string }) {
  const [text, setText] = useState("order.big");
  const [tab, setTab] = useState("body");
  const [choice, setChoice] = useState("");
  const tabs = [
    { name: "body", title: "Body" },
    { name: "headers", title: "Headers", count: 12 },
    { name: "raw", title: "Raw" },
  ];
  return (
    <Section title="Buttons and fields" label={`Buttons and fields, ${theme}`}>
      <Buttons />
      <p class="components-row">
        <Search
          label={`Search, ${theme}`}
          value=""
          placeholder="Search"
          onSearch={() => undefined}
        />
        <Select
          label="Outcome"
          value={choice}
          options={["", "accepted", "no_route"]}
          onChange={setChoice}
        />
      </p>
      <TextField label="Name" value={text} onInput={setText} hint="As it stands in the config." />
      <TextField
        label="Path"
        value={text}
        onInput={setText}
        error="hooks.mappings[2].match.path has a space; paths of hooks have none."
      />
      <TextField label="Text" value={text} onInput={setText} lines={3} />
      <Tabs label={`Tabs, ${theme}`} tabs={tabs} value={tab} onChange={setTab} />
      <Windows />
    </Section>
  );
}
