import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

const KEPT = "rouse.split";
const LEAST = 25;
const MOST = 80;
const STEP = 4;

const readShare = (name: string): number => {
  const kept = Number(localStorage.getItem(`${KEPT}.${name}`));
  return kept >= LEAST && kept <= MOST ? kept : 48;
};

/**
 * A list with the detail of one of its rows beside it. The line between them is moved with the mouse or the arrow keys and
 * kept by `name`. In a narrow window, the detail takes the place of the list until it is closed.
 */
export function Split(props: {
  name: string;
  list: ComponentChildren;
  detail: ComponentChildren | null;
  onClose(): void;
}) {
  const [share, setShare] = useState(() => readShare(props.name));
  const box = useRef<HTMLDivElement>(null);
  const move = (percent: number): void => {
    const next = Math.min(MOST, Math.max(LEAST, percent));
    setShare(next);
    localStorage.setItem(`${KEPT}.${props.name}`, String(Math.round(next)));
  };
  const drag = (event: PointerEvent): void => {
    if (!(event.buttons & 1) || !box.current) return;
    const { left, width } = box.current.getBoundingClientRect();
    move(((event.clientX - left) / width) * 100);
  };
  const open = props.detail !== null && props.detail !== undefined;
  return (
    <div
      class={`split ${open ? "open" : ""}`}
      ref={box}
      style={open ? { "--share": `${share}%` } : {}}
    >
      <div class="list">{props.list}</div>
      {open ? (
        <>
          <div
            class="divider"
            role="separator"
            tabIndex={0}
            aria-orientation="vertical"
            aria-label="Width of the list"
            aria-valuenow={Math.round(share)}
            aria-valuemin={LEAST}
            aria-valuemax={MOST}
            onPointerDown={(event) =>
              (event.currentTarget as Element).setPointerCapture(event.pointerId)
            }
            onPointerMove={drag}
            onKeyDown={(event) => {
              if (event.key === "ArrowLeft") move(share - STEP);
              if (event.key === "ArrowRight") move(share + STEP);
            }}
          />
          <div class="detail">
            <button
              type="button"
              class="icon close"
              aria-label="Close the detail"
              title="Close (Escape)"
              onClick={props.onClose}
            >
              ×
            </button>
            {props.detail}
          </div>
        </>
      ) : null}
    </div>
  );
}
