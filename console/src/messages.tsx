import type { DeliveryDetail } from "../../src/operate/records/views.ts";
import { Status } from "./ui/basic.tsx";
import { plural, visibleText } from "./ui/format.ts";
import "./messages.css";

function Message({ text, isSent }: { text: string; isSent: boolean }) {
  return (
    <li>
      <Status word={isSent ? "sent" : "not sent"} tone={isSent ? "good" : "warn"} />
      <pre class="code">{visibleText(text)}</pre>
    </li>
  );
}

/** The messages of a delivery and the files that follow them, in order, with which of them are sent. */
export function Messages({
  delivery: { texts, sentChunks, attached, sentFiles },
}: {
  delivery: DeliveryDetail;
}) {
  return (
    <ol class="messages">
      {texts.map((text, index) => (
        <Message key={index} text={text} isSent={index < sentChunks} />
      ))}
      {attached.map(({ name, mediaType, bytes }, index) => (
        <Message
          key={`file-${index}`}
          text={`${name} (${mediaType}, ${plural(bytes, "byte")})`}
          isSent={index < sentFiles}
        />
      ))}
    </ol>
  );
}
