// The client's half of what VS Code speaks to language servers, against `valvehouse lsp`.
//
// Usage: node language_client.cjs BINARY PROJECT
"use strict";

const assert = require("node:assert/strict");
const { execFileSync, spawn } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const protocol = require("vscode-languageserver-protocol/node");

const [binary, project] = process.argv.slice(2);
const PATIENCE = 60_000;

const server = spawn(binary, ["lsp", "--stdio"], { cwd: "/", stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => server.on("exit", resolve));
const connection = protocol.createProtocolConnection(
    new protocol.StreamMessageReader(server.stdout),
    new protocol.StreamMessageWriter(server.stdin),
);

// What was told of each file last, and who waits for more.
const told = new Map();
let waiting = [];
connection.onNotification(protocol.PublishDiagnosticsNotification.type, (params) => {
    told.set(params.uri, params);
    waiting = waiting.filter((one) => !one());
});

function within(what, promise) {
    const late = new Promise((_, reject) => {
        setTimeout(() => reject(new Error(`${what} takes too long`)), PATIENCE).unref();
    });
    return Promise.race([promise, late]);
}

/// The problems of a file, once they are as they should be.
function problems(file, wanted) {
    return within(`word of ${file.name}`, new Promise((resolve) => {
        const look = () => {
            const params = told.get(file.uri);
            const fits = params && (params.version ?? file.version) === file.version && wanted(params.diagnostics);
            if (fits) resolve(params.diagnostics);
            return fits;
        };
        if (!look()) waiting.push(look);
    }));
}

class File {
    constructor(name, text) {
        this.name = name;
        this.path = path.join(project, name);
        this.uri = pathToFileURL(this.path).href;
        this.version = 1;
        this.text = text;
        const textDocument = { uri: this.uri, languageId: "rhai", version: 1, text };
        this.sent = connection.sendNotification(protocol.DidOpenTextDocumentNotification.type, { textDocument });
    }

    async change(text) {
        this.text = text;
        this.version += 1;
        const textDocument = { uri: this.uri, version: this.version };
        const params = { textDocument, contentChanges: [{ text }] };
        await connection.sendNotification(protocol.DidChangeTextDocumentNotification.type, params);
    }

    async save() {
        fs.writeFileSync(this.path, this.text);
        const params = { textDocument: { uri: this.uri } };
        await connection.sendNotification(protocol.DidSaveTextDocumentNotification.type, params);
    }

    /// A question about the place behind a piece of the text.
    ask(type, behind, more = {}) {
        const offset = this.text.indexOf(behind) + behind.length;
        assert.ok(offset >= behind.length, `${behind} is not there`);
        const before = this.text.slice(0, offset).split("\n");
        // A string's length here is counted as the protocol counts.
        const position = { line: before.length - 1, character: before.at(-1).length };
        const params = { textDocument: { uri: this.uri }, position, ...more };
        return within(`${type.method} at ${behind}`, connection.sendRequest(type, params));
    }

    /// What the file says in a range.
    slice({ start, end }) {
        assert.equal(start.line, end.line);
        return this.text.split("\n")[start.line].slice(start.character, end.character);
    }
}

const FILTER = `/*
title: Polite
requirements: kv
*/
import "lib/words" as words;

const Valves = #{
    limit: #{ value: 4, minimum: 1, description: "Returns the number of messages" },
};

fn inlet(body, valves) {
    let _face = "😀"; let m = body.messages.last("user");
    if valves.limit < 1 { kv::incr("no"); deny(words::shout("😀 no")); }
    m.text = regex::replace(m.text, "a", "b");
    body
}
`;

/// What a request about a whole file is answered with.
function request(type, file, more = {}) {
    return within(type.method, connection.sendRequest(type, { textDocument: { uri: file.uri }, ...more }));
}

const shown = [];
connection.onNotification(protocol.ShowMessageNotification.type, (params) => {
    shown.push(params);
    waiting = waiting.filter((one) => !one());
});

function message(fits) {
    return within("a message", new Promise((resolve) => {
        const look = () => {
            const found = shown.find(fits);
            if (found) resolve(found);
            return Boolean(found);
        };
        if (!look()) waiting.push(look);
    }));
}

/// A text with edits of the protocol applied.
function applied(text, edits) {
    const lines = text.split("\n");
    const offset = ({ line, character }) => lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0) + character;
    const sorted = [...edits].sort((a, b) => offset(b.range.start) - offset(a.range.start));
    return sorted.reduce(
        (done, { range, newText }) => done.slice(0, offset(range.start)) + newText + done.slice(offset(range.end)),
        text,
    );
}

/// Quick fixes, formatting, names, values of valves, and tests that run.
async function authoring(file, words) {
    await words.change("// Says it loudly.\nfn shout(text) { text.to_upper() + \"!\" }\n");
    await problems(words, (all) => all.length === 0);
    await words.save();
    await file.change(FILTER);
    await problems(file, (all) => all.length === 0);

    // A fix is an edit of the text as it is now, behind an emoji too.
    await file.change(FILTER.replace('let m = body', 'let gone = 1 === 1; let m = body'));
    const everything = { start: { line: 0, character: 0 }, end: { line: 99, character: 0 } };
    const fixes = await request(protocol.CodeActionRequest.type, file, {
        range: everything,
        context: { diagnostics: [] },
    });
    const none = fixes.find((fix) => fix.title === "Replace with `==`");
    assert.equal(none.kind, "quickfix");
    assert.equal(none.diagnostics[0].code, "V103");
    assert.match(applied(file.text, none.edit.changes[file.uri]), /let gone = 1 == 1; let m = body/);
    const elsewhere = await request(protocol.CodeActionRequest.type, file, {
        range: { start: { line: 0, character: 0 }, end: { line: 1, character: 0 } },
        context: { diagnostics: [] },
    });
    assert.deepEqual(elsewhere, []);
    await file.change(FILTER.replace("requirements: kv\n", ""));
    const declare = await request(protocol.CodeActionRequest.type, file, {
        range: everything,
        context: { diagnostics: [] },
    });
    await file.change(applied(file.text, declare.find((fix) => fix.title.includes("kv")).edit.changes[file.uri]));
    await problems(file, (all) => all.length === 0);

    // Formatting is what `fmt` does.
    await file.change(FILTER.replace("    m.text =", "m.text="));
    const options = { options: { tabSize: 4, insertSpaces: true } };
    const layout = await request(protocol.DocumentFormattingRequest.type, file, options);
    assert.equal(applied(file.text, layout), execFileSync(binary, ["fmt", "-"], { input: file.text, encoding: "utf8" }));
    assert.match(applied(file.text, layout), /\n    m\.text = regex/);
    await file.change("fn inlet(body) {\n    (\n}");
    await assert.rejects(request(protocol.DocumentFormattingRequest.type, file, options), /2:5: unclosed `\(`/);
    await file.change(FILTER);
    await file.save();

    // A name is found, and renamed, in every file; names of the host are not.
    const position = (text, behind) => {
        const before = text.slice(0, text.indexOf(behind) + behind.length).split("\n");
        return { line: before.length - 1, character: before.at(-1).length };
    };
    const at = { position: position(file.text, "words::sh") };
    const uses = await request(protocol.ReferencesRequest.type, file, {
        ...at,
        context: { includeDeclaration: true },
    });
    assert.deepEqual(uses.map((use) => path.basename(new URL(use.uri).pathname)).sort(), ["polite.rhai", "words.rhai"]);
    const renamed = await request(protocol.RenameRequest.type, file, { ...at, newName: "yell" });
    assert.deepEqual(Object.keys(renamed.changes).sort(), [words.uri, file.uri].sort());
    assert.match(applied(file.text, renamed.changes[file.uri]), /words::yell\("/);
    assert.match(applied(words.text, renamed.changes[words.uri]), /fn yell\(text\)/);
    const local = { position: position(file.text, "let m") };
    const variable = await request(protocol.RenameRequest.type, file, { ...local, newName: "last" });
    assert.match(applied(file.text, variable.changes[file.uri]), /let last = body[^]*last\.text = regex::replace\(last\.text,/);
    const asked = await request(protocol.PrepareRenameRequest.type, file, local);
    assert.equal(file.slice(asked), "m");
    for (const [behind, name, why] of [
        ["fn inl", "other", /calls the function `inlet` by this name/],
        ["fn inlet(bo", "other", /passes the parameter `body` by this name/],
        ["valves.lim", "other", /the name of a setting/],
        ["regex::repl", "other", /belongs to the host|not declared in a script/],
        ["let m", "body", /`body` is used in polite\.rhai/],
        ["let m", "if", /invalid name `if`/],
    ]) {
        const params = { position: position(file.text, behind), newName: name };
        await assert.rejects(request(protocol.RenameRequest.type, file, params), why);
    }

    // Valves show their values, also those of the settings; tests can be run.
    const hints = await request(protocol.InlayHintRequest.type, file, { range: everything });
    assert.deepEqual(hints.map((hint) => hint.label), ["= 4"]);
    const tests = new File("filters/polite.test.rhai", "fn test_good() {\n    assert(true);\n}\n\nfn test_bad() {\n    assert_eq(inlet(\"b\").messages.len(), 2);\n}\n");
    await problems(tests, (all) => all.length === 0);
    await tests.save();
    const lenses = await request(protocol.CodeLensRequest.type, tests);
    assert.deepEqual(lenses.map((lens) => [lens.command.title, lens.range.start.line]), [
        ["Run 2 tests", 0],
        ["Run test", 0],
        ["Run test", 4],
    ]);
    const run = (lens) => within("tests", connection.sendRequest(protocol.ExecuteCommandRequest.type, {
        command: lens.command.command,
        arguments: lens.command.arguments,
    }));
    await run(lenses[1]);
    await message(({ message }) => message === "1 test passed");
    await run(lenses[0]);
    await message(({ message, type }) => type === 1 && message.startsWith("1 of 2 tests failed"));
    const failed = await problems(tests, (all) => all.length === 1);
    assert.equal(failed[0].code, "V703");
    assert.equal(failed[0].range.start.line, 5);
    // From a test to the function of its script.
    const hook = await tests.ask(protocol.DefinitionRequest.type, "assert_eq(inl");
    assert.equal(hook.uri, file.uri);
    const beside = await request(protocol.CodeLensRequest.type, file);
    assert.deepEqual(beside.map((lens) => lens.command.title), ["Run tests"]);
    await assert.rejects(
        connection.sendRequest(protocol.ExecuteCommandRequest.type, { command: "other", arguments: [] }),
        /unknown command `other`/,
    );
    await connection.sendNotification(protocol.DidCloseTextDocumentNotification.type, { textDocument: { uri: tests.uri } });
}

async function main() {
    connection.listen();
    const hello = await within("hello", connection.sendRequest(protocol.InitializeRequest.type, {
        processId: process.pid,
        rootUri: null,
        workspaceFolders: [{ uri: pathToFileURL(project).href, name: "project" }],
        capabilities: { textDocument: { completion: { completionItem: { snippetSupport: true } } } },
    }));
    assert.equal(hello.serverInfo.name, "valvehouse");
    await connection.sendNotification(protocol.InitializedNotification.type, {});

    // Nothing is wrong with a good file; everything about it can be asked.
    const file = new File("filters/polite.rhai", FILTER);
    await problems(file, (all) => all.length === 0);
    const hover = await file.ask(protocol.HoverRequest.type, "regex::repl");
    assert.match(hover.contents.value, /regex::replace\(text, pattern: text, replacement: text\) -> text/);
    assert.equal(file.slice(hover.range), "replace");
    const behindEmoji = await file.ask(protocol.HoverRequest.type, "let m = body.mess");
    assert.equal(file.slice(behindEmoji.range), "messages");
    const valve = await file.ask(protocol.DefinitionRequest.type, "valves.lim");
    assert.equal(valve.uri, file.uri);
    assert.equal(file.slice(valve.range), "limit");
    assert.equal(valve.range.start.line, 7);
    const variable = await file.ask(protocol.DefinitionRequest.type, "regex::replace(m");
    assert.deepEqual(variable.range.start, { line: 11, character: file.text.split("\n")[11].indexOf("m = body") });
    const module = await file.ask(protocol.DefinitionRequest.type, "words::sh");
    assert.equal(module.uri, pathToFileURL(path.join(project, "filters/lib/words.rhai")).href);
    assert.deepEqual(module.range.start, { line: 1, character: 3 });
    const outline = await within("an outline", connection.sendRequest(
        protocol.DocumentSymbolRequest.type, { textDocument: { uri: file.uri } },
    ));
    assert.deepEqual(outline.map((one) => one.name), ["words", "Valves", "inlet"]);
    assert.deepEqual(outline[1].children.map((one) => one.name), ["limit"]);
    const help = await file.ask(protocol.SignatureHelpRequest.type, "regex::replace(m.text, ");
    assert.equal(help.activeParameter, 1);
    assert.ok(help.signatures[0].label.startsWith("regex::replace("));

    // Words are completed while the text does not parse.
    const labels = async (text, behind) => {
        await file.change(text);
        return (await file.ask(protocol.CompletionRequest.type, behind)).map((item) => item.label);
    };
    const broken = FILTER.replace("m.text =", "if m. {\n    m.text =");
    assert.ok((await labels(broken, "if m.")).includes("images"));
    assert.ok((await labels(FILTER.replace("valves.limit <", "valves. <"), "valves.")).includes("limit"));
    assert.ok((await labels(FILTER.replace("regex::replace(", "regex::("), "regex::")).includes("find_all"));
    assert.ok((await labels(FILTER.replace("words::shout(", "words::("), "words::")).includes("shout"));
    assert.ok((await labels(FILTER.replace("body, valves", "body, valves, __"), "valves, __")).includes("__user__"));
    assert.ok((await labels(FILTER.replace("requirements: kv", "requirements: kv, "), "kv, ")).includes("http"));
    const frames = await labels(`${FILTER}\n\nfn out`, "fn out");
    assert.ok(frames.includes("outlet"));

    // What is wrong is told where check tells it, behind an emoji too; unsaved texts count.
    await file.change(FILTER.replace("deny(words", "deny(wrods"));
    const wrong = await problems(file, (all) => all.length > 0);
    assert.ok(wrong.some((one) => file.slice(one.range).startsWith("wrods")), JSON.stringify(wrong));
    await file.change(FILTER.replace('let _face = "😀"; let m', 'let _face = "😀"; let = m'));
    await problems(file, (all) => all.length > 0);
    await file.save();
    const same = await problems(file, (all) => all.length > 0);
    const says = (() => {
        try {
            return execFileSync(binary, ["check", "--project", project, "--format", "json", "polite"], { encoding: "utf8" });
        } catch (failed) {
            return failed.stdout;
        }
    })();
    const checked = JSON.parse(says).problems;
    assert.equal(same.length, checked.length);
    for (const [at, problem] of checked.entries()) {
        assert.ok(same[at].message.startsWith(problem.message), `${same[at].message} / ${problem.message}`);
        assert.equal(same[at].range.start.line, problem.line - 1);
        const before = [...file.text.split("\n")[problem.line - 1]].slice(0, problem.column - 1).join("");
        assert.equal(same[at].range.start.character, before.length);
    }
    await file.change(FILTER);
    await problems(file, (all) => all.length === 0);

    // What was granted by command counts, too.
    const shell = new File("tools/now.rhai", "/*\nrequirements: shell\ndescription: Now.\n*/\nfn handler(args) { shell::run([\"date\"]).stdout }\n");
    const lacks = await problems(shell, (all) => all.length > 0);
    assert.match(lacks[0].message, /not allowed to use `shell`[^]*valvehouse grant now shell/);
    await shell.save();
    execFileSync(binary, ["grant", "now", "shell=date", "--project", project], { stdio: "ignore" });
    await shell.save();
    await problems(shell, (all) => all.length === 0);

    // A module that breaks is told where it is imported, and where it is itself.
    const words = new File("filters/lib/words.rhai", fs.readFileSync(path.join(project, "filters/lib/words.rhai"), "utf8"));
    await problems(words, (all) => all.length === 0);
    await words.change("fn shout(text) { text.to_upper( }");
    await problems(words, (all) => all.length > 0);
    await words.save();
    const imported = await problems(file, (all) => all.length > 0);
    assert.equal(file.slice(imported[0].range), "\"lib/words\"");

    await authoring(file, words);

    // Tests of scripts have functions that scripts have not; odd files and unknown questions do no harm.
    const test = new File("filters/polite.test.rhai", "fn test_it() { assert(true); }\n");
    await problems(test, (all) => all.length === 0);
    const odd = new File("filters/odd.rhai", "\ufefffn inlet(body) { body.\u{1f600}\u0000 `${ ");
    await problems(odd, (all) => all.length > 0);
    await odd.ask(protocol.CompletionRequest.type, "body.");
    await assert.rejects(connection.sendRequest("textDocument/unknown", {}), /unknown/);
    await connection.sendNotification("textDocument/didOpen", { nonsense: true });
    const lost = { textDocument: { uri: "untitled:Untitled-1" }, position: { line: 9, character: 9 } };
    assert.equal(await within("nothing", connection.sendRequest(protocol.HoverRequest.type, lost)), null);

    await within("good-bye", connection.sendRequest(protocol.ShutdownRequest.type));
    await connection.sendNotification(protocol.ExitNotification.type);
    assert.equal(await within("its end", ended), 0);
    console.log("a language client: hover, definitions, outline, completion, problems, fixes, names, layout, values, tests");
}

main().then(() => process.exit(0), (error) => {
    console.error(error);
    server.kill();
    process.exit(1);
});
