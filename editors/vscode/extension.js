// Starts `valvehouse lsp` and connects VS Code to it.
"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

async function start() {
    const settings = vscode.workspace.getConfiguration("valvehouse");
    const server = {
        command: settings.get("path"),
        args: settings.get("arguments"),
        transport: TransportKind.stdio,
    };
    const options = {
        documentSelector: [{ scheme: "file", language: "rhai" }],
        synchronize: {
            fileEvents: vscode.workspace.createFileSystemWatcher("**/{valvehouse.toml,*.rhai}"),
        },
    };
    client = new LanguageClient("valvehouse", "Valvehouse", server, options);
    try {
        await client.start();
    } catch (error) {
        client = undefined;
        vscode.window.showErrorMessage(
            `Cannot start ${server.command}: ${error.message}. Install Valvehouse, or set valvehouse.path to the program.`,
        );
    }
}

async function stop() {
    const running = client;
    client = undefined;
    await running?.stop();
}

async function restart() {
    await stop();
    await start();
}

async function activate(context) {
    context.subscriptions.push(
        vscode.commands.registerCommand("valvehouse.restartServer", restart),
        vscode.workspace.onDidChangeConfiguration((change) => {
            if (change.affectsConfiguration("valvehouse.path") || change.affectsConfiguration("valvehouse.arguments")) {
                return restart();
            }
        }),
    );
    await start();
}

module.exports = { activate, deactivate: stop };
