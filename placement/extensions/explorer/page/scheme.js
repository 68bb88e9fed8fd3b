/** Light or dark: as the system has it, or as the visitor has chosen. `scheme` of the document's root says which. */

import { ofBrowser } from "./storage.js";

const KEY = "placement-scheme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Tells with the event `change` that the colours have changed. */
export const schemeChanges = new EventTarget();

/** @returns {"light" | "dark"} */
export function scheme() {
  const chosen = ofBrowser.get(KEY);
  if (chosen === "light" || chosen === "dark") return chosen;
  return dark.matches ? "dark" : "light";
}

/** Change to the other one. The choice is kept, unless it is what the system has. */
export function switchScheme() {
  const wanted = scheme() === "dark" ? "light" : "dark";
  ofBrowser.set(KEY, (wanted === "dark") === dark.matches ? "" : wanted);
  show();
}

function show() {
  document.documentElement.dataset.scheme = scheme();
  schemeChanges.dispatchEvent(new Event("change"));
}

dark.addEventListener("change", show);
show();
