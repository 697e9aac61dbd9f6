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
    console.log("a language client: hover, definitions, outline, completion, problems as check tells them");
}

main().then(() => process.exit(0), (error) => {
    console.error(error);
    server.kill();
    process.exit(1);
});
