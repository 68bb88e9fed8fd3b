/** Lines to copy: the same question for a browser, for curl, for the openstack command. */

import { copyText, h } from "../dom.js";

/** @typedef {{title: string, text: string, note?: string}} Line */

/** @param {Line[]} lines */
export function copyLines(lines) {
  const ways = new Set(lines.map(({ title }) => title.split(",")[0]));
  return h("details.copy-lines", { "data-key": "copy lines" },
    h("summary", {}, `Ask this elsewhere: ${[...ways].join(", ")}`),
    lines.map(copyLine));
}

/** @param {Line} line */
export function copyLine({ title, text, note }) {
  const button = h("button.small", { type: "button", "aria-label": `Copy the ${title}` }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = await copyText(text) ? "Copied" : "Select it";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return h("div.copy-line", {}, h("span.what", {}, title), h("code", { tabindex: "0" }, text),
    button, note ? h("p.note", {}, note) : null);
}
