/** What a view shows without data: loading, empty, refused, away, wrong. */

import { ROOT, Refusal } from "../api.js";
import { h } from "../dom.js";

/**
 * @param {string} mark a single character that stands for the state
 * @param {string} title
 * @param {import("../dom.js").Child[]} body
 * @param {string} [kind] a class of the style sheet
 */
export function stateNote(mark, title, body, kind = "") {
  return h(`div.state-note${kind && `.${kind}`}`, { role: kind === "loading" ? "status" : null },
    h("span.mark", { "aria-hidden": "true" }, mark),
    h("div", {}, h("h2", {}, title), ...body.filter(Boolean).map((it) => h("p", {}, it))));
}

/** @param {string} text what is being read */
export function loadingNote(text) {
  return h("div.state-note.loading", { role: "status" },
    h("span.spinner", { "aria-hidden": "true" }), h("div", {}, h("p", {}, text)));
}

/** No provider has been made, and how a trial gets some. */
export function emptyCloud() {
  return stateNote("◌", "The cloud is empty", [
    "No resource provider has been made yet. In a trial, load the example cloud:",
    h("code", {}, `.venv/bin/python examples/boot_cloud.py --url ${ROOT.href.replace(/\/$/, "")}`)]);
}

/**
 * What an error is, in a few words.
 *
 * @param {unknown} error
 */
export function errorTitle(error) {
  if (!(error instanceof Refusal)) return "This page made a mistake";
  if (error.status === 403) return "Your token may not do this";
  if (error.away) return "The service does not answer";
  if (error.status === 404) return "There is no such thing";
  if (error.status === 400) return "The service does not understand this";
  if (error.status >= 500) return `The service failed: ${error.status}`;
  if (error.status < 400) return "This is not an answer of the service";
  return `Status ${error.status}`;
}

/**
 * What an error means for the visitor.
 *
 * @param {unknown} error
 * @param {() => void} retry
 */
export function errorNote(error, retry) {
  const again = h("button", { type: "button", onclick: retry }, "Try again");
  const title = errorTitle(error);
  if (!(error instanceof Refusal)) {
    return stateNote("!", title, [String(error), again], "bad");
  }
  if (error.status === 403) {
    return stateNote("⊘", title, [
      error.rule ? h("span", {}, "The policy rule ", h("code", {}, error.rule), " says no.") : error.detail,
      "An operator can allow it in the policy file, or you can use the token of another project.",
      h("span", {}, "In a trial the token is ", h("code", {}, "admin"),
        ": forget this one, and sign in with it."),
      again], "refused");
  }
  if (error.away) {
    return stateNote("☁", title, [
      error.detail || (error.status ? `It says ${error.status}.` : "Nothing came back."),
      "This page tries again by itself.", again], "away");
  }
  if (error.status === 404) {
    return stateNote("∅", title, [
      error.detail || "The service knows nothing under this name.", again]);
  }
  return stateNote("!", title, [error.detail, again], "bad");
}
