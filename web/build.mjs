// Bundles src/ into the package: `npm ci && npm run build`. `--check` compares with what is committed, and writes nothing.
import { build } from "esbuild";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const made = await build({
  entryPoints: { app: here("src/main.jsx") },
  outdir: here("../src/watersmeet/page/static"),
  absWorkingDir: here("."),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  write: !process.argv.includes("--check"),
});
if (process.argv.includes("--check")) {
  const other = made.outputFiles.filter((file) => readFileSync(file.path, "utf8") !== file.text).map((file) => file.path);
  if (other.length) {
    console.error(`not what the sources give: ${other.join(", ")}; do: npm run build`);
    process.exit(1);
  }
  console.log("the bundle is what the sources give");
}
