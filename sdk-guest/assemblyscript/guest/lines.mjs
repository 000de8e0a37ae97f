/**
 * A transform of the compiler: before each statement of the plugin's own sources it notes file and line. What fails inside
 * of AssemblyScript's library, such as an index out of range, can then be told with the line of the plugin.
 */

import { pathToFileURL } from "node:url";

const compiler = new URL("../dist/assemblyscript.js", pathToFileURL(process.argv[1]));
const { NodeKind, Source, SourceKind, Tokenizer } = await import(compiler);

const DECLARATIONS = new Set([
  NodeKind.Block,
  NodeKind.ClassDeclaration,
  NodeKind.EnumDeclaration,
  NodeKind.Export,
  NodeKind.FunctionDeclaration,
  NodeKind.Import,
  NodeKind.InterfaceDeclaration,
]);

export default class Lines {
  afterParse(parser) {
    for (const source of parser.sources) {
      if (source.internalPath.startsWith("~lib/")) continue;
      for (const statement of source.statements) this.#visit(parser, statement);
    }
  }

  /** Has every block below a node note its lines. */
  #visit(parser, node) {
    if (node.kind === NodeKind.Block || node.kind === NodeKind.SwitchCase) this.#note(parser, node);
    for (const [key, value] of Object.entries(node)) {
      if (key === "range") continue;
      for (const child of Array.isArray(value) ? value : [value]) {
        if (child?.range && typeof child.kind === "number") this.#visit(parser, child);
      }
    }
  }

  #note(parser, block) {
    block.statements = block.statements.flatMap((statement) => {
      if (DECLARATIONS.has(statement.kind)) return [statement];
      const { range } = statement;
      const text = `__at(${JSON.stringify(range.source.normalizedPath)}, ${range.source.lineAt(range.start)});`;
      const tokens = new Tokenizer(new Source(SourceKind.User, range.source.normalizedPath, text));
      return [parser.parseStatement(tokens, false), statement];
    });
  }
}
