import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: globals.browser },
    rules: {
      "max-lines": ["error", 400],
      "max-lines-per-function": ["error", 60],
      complexity: ["error", 15],
      eqeqeq: "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "no-var": "error",
      "prefer-const": "error",
      // Data becomes text, never markup.
      "no-restricted-properties": ["error",
        { property: "innerHTML" }, { property: "outerHTML" }, { property: "insertAdjacentHTML" },
        { object: "document", property: "write" }, { property: "localStorage" },
        { property: "sessionStorage" }, { object: "document", property: "cookie" }],
      "no-restricted-globals": ["error", "localStorage", "sessionStorage", "indexedDB"],
    },
  },
];
