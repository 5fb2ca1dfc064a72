const SIGNS: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

/** Text for HTML, in elements and in attributes that stand in `"`. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => SIGNS[sign] ?? sign);
}

/** What a reader sees of HTML whose text was escaped by `escapeHtml`. */
export function htmlText(html: string): string {
  const back = Object.fromEntries(Object.entries(SIGNS).map(([sign, entity]) => [entity, sign]));
  return html
    .replace(/<[^>]*>/g, "")
    .replace(/&(?:lt|gt|quot|amp);/g, (entity) => back[entity] ?? entity);
}
