// The scripts of pages, read by the parser and the scope analysis of eslint. Input: [folder of packages, question, data].
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [packages, question, data] = JSON.parse(readFileSync(0, "utf8"));
const load = createRequire(`${packages}/`);
const espree = load("espree");
const { analyze } = load("eslint-scope");

/**
 * What joining the modules of a part to one scope would break: names that two of them declare, and names of the browser
 * in one that another declares.
 */
function collisions(modules) {
  const declared = new Map(), free = [], out = [];
  for (const [path, text] of Object.entries(modules)) {
    const ast = espree.parse(text, { ecmaVersion: "latest", sourceType: "module", range: true });
    const whole = analyze(ast, { ecmaVersion: 2024, sourceType: "module" }).globalScope, own = whole.childScopes[0];
    for (const { name, defs } of own.variables) {
      if (defs.some(({ type }) => type === "ImportBinding")) continue;
      if (declared.has(name)) out.push(`${name} is declared in ${declared.get(name)} and ${path}`);
      declared.set(name, path);
    }
    for (const { identifier } of whole.through) free.push([identifier.name, path]);
  }
  for (const [name, path] of free) if (declared.has(name)) out.push(`${name} in ${path} would be that of ${declared.get(name)}`);
  return [...new Set(out)];
}

const answers = {
  collisions: (parts) => parts.flatMap(collisions),
};
console.log(JSON.stringify(answers[question](data)));
