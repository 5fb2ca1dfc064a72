import type { ComponentChildren } from "preact";

/** The head of a page: its title, the filters of its list, and what can be done. Filters move sideways in a narrow window. */
export function PageHead(props: {
  title: ComponentChildren;
  filters?: ComponentChildren;
  actions?: ComponentChildren;
}) {
  const { title, filters, actions } = props;
  return (
    <header class="page-head">
      <h1>{title}</h1>
      {filters ? <div class="filters">{filters}</div> : null}
      {actions ? <div class="actions">{actions}</div> : null}
    </header>
  );
}
