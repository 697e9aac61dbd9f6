// The client that the official suite of MCP tests: this host, with the suite's server mounted.
//
// The suite starts this once per scenario. It plays three parts: the person who logs in (the browser follows the address
// that `valvehouse mcp login` prints), the operator who reads the log, and a client of MCP that calls every tool and
// answers every question with the form's defaults. That client speaks the version with sessions, whatever the suite
// speaks: the host translates.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BINARY = process.env.VALVEHOUSE_BINARY;
const SCENARIO = process.env.MCP_CONFORMANCE_SCENARIO;
const CONTEXT = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const url = process.argv[2];
const isAuth = SCENARIO.startsWith("auth/");
// What nobody asks for more than twice.
const MAX_LOGINS = 3;

/** Waits for one of a few places: the suite starts all scenarios at once, and each has a host of its own. */
async function place() {
    for (;;) {
        for (let number = 0; number < 6; number++) {
            const file = join(tmpdir(), `valvehouse-suite-place-${number}`);
            try {
                writeFileSync(file, String(process.pid), { flag: "wx" });
                process.on("exit", () => rmSync(file, { force: true }));
                return;
            } catch {
                try {
                    process.kill(Number(readFileSync(file, "utf8")) || process.pid, 0);
                } catch (error) {
                    // Its holder was killed.
                    if (error.code === "ESRCH") rmSync(file, { force: true });
                }
            }
        }
        await pause();
    }
}

const project = mkdtempSync(join(tmpdir(), "valvehouse-suite-"));
const oauth = { client_metadata_url: "https://conformance-test.local/client-metadata.json" };
if (CONTEXT.client_id) Object.assign(oauth, { client_id: CONTEXT.client_id, client_secret: CONTEXT.client_secret });
const inline = Object.entries(oauth).filter(([, value]) => value).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
const auth = isAuth ? `auth = "oauth"\noauth = { ${inline.join(", ")} }\n` : "";
writeFileSync(join(project, "valvehouse.toml"), `[[mcp]]\nname = "suite"\nurl = "${url}"\ntrust = "always"\n${auth}`);

/** Logs in; the browser goes where it is sent, and nowhere else. */
async function login() {
    const child = spawn(BINARY, ["--project", project, "mcp", "login", "suite", "--no-browser"]);
    let output = "";
    let opened;
    const ended = new Promise((resolve) => child.on("close", resolve));
    const listen = (data) => {
        output += data;
        const address = output.match(/https?:\/\/\S+/);
        if (address && !opened && output.includes("\n", address.index)) {
            opened = fetch(address[0], { redirect: "manual" }).then((answer) => {
                const back = answer.headers.get("location");
                return back && fetch(back);
            });
        }
    };
    child.stdout.on("data", listen);
    child.stderr.on("data", listen);
    const code = await ended;
    await opened?.catch(() => {});
    if (code !== 0) throw new Error(`login: ${output}`);
}

/** The host, with this as its client. */
class Host {
    constructor() {
        this.child = spawn(BINARY, ["--project", project, "mcp"]);
        this.waiting = new Map();
        this.last = 0;
        this.log = "";
        this.child.stderr.on("data", (data) => (this.log += data));
        createInterface({ input: this.child.stdout }).on("line", (line) => this.heard(JSON.parse(line)));
    }

    heard(message) {
        if (message.method === "elicitation/create") {
            const result = { action: "accept", content: {} };
            this.send({ id: message.id, result });
        } else if (message.id !== undefined && !message.method) {
            this.waiting.get(message.id)?.(message);
            this.waiting.delete(message.id);
        }
    }

    send(message) {
        this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    }

    request(method, params) {
        const id = ++this.last;
        const answer = new Promise((resolve) => this.waiting.set(id, resolve));
        this.send({ id, method, params });
        return answer;
    }

    async begin() {
        const capabilities = { elicitation: {} };
        const clientInfo = { name: "suite", version: "1" };
        await this.request("initialize", { protocolVersion: "2025-11-25", capabilities, clientInfo });
        this.send({ method: "notifications/initialized" });
    }

    async tools() {
        const listed = await this.request("tools/list", {});
        return listed.result.tools.filter((tool) => tool.name.startsWith("suite_"));
    }

    wantsLogin() {
        const wants = this.log.includes("valvehouse mcp login suite");
        this.log = "";
        return wants;
    }

    async end() {
        const ended = new Promise((resolve) => this.child.on("close", resolve));
        this.child.stdin.end();
        await ended;
    }
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 100));

/** Arguments for a tool, where the suite names none. A tool that wants a schema gets the first one that was listed. */
function made(schema, tools) {
    if (schema.properties?.schema?.type === "object") return { schema: tools[0].inputSchema };
    const values = { number: 1.5, integer: 1, string: "test", boolean: true };
    const required = Object.entries(schema.properties ?? {}).filter(([name]) => schema.required?.includes(name));
    return Object.fromEntries(required.map(([name, property]) => [name, values[property.type] ?? null]));
}

async function run() {
    let logins = 0;
    const another = async () => {
        if (logins >= MAX_LOGINS) throw new Error("no login is enough");
        logins += 1;
        await login();
    };
    if (isAuth) await another();
    const host = new Host();
    try {
        await host.begin();
        let tools = [];
        // A server of one scenario has none.
        for (let look = 0; look < (SCENARIO === "initialize" ? 30 : 200) && tools.length === 0; look++) {
            tools = await host.tools();
            if (tools.length === 0 && host.wantsLogin()) await another();
            await pause();
        }
        const named = CONTEXT.toolCalls?.map((call) => [`suite_${call.name}`, call.arguments ?? {}]);
        const calls = named ?? tools.map((tool) => [tool.name, made(tool.inputSchema, tools)]);
        for (const [name, args] of calls) {
            for (;;) {
                const called = await host.request("tools/call", { name, arguments: args });
                console.log(name, JSON.stringify(called.result ?? called.error));
                if (!isAuth || !JSON.stringify(called).includes("valvehouse mcp login suite")) break;
                if (logins >= MAX_LOGINS) return;
                await another();
                // The running host takes the new tokens up by itself.
                for (let look = 0; look < 50 && (await host.tools()).length === 0; look++) await pause();
            }
        }
    } finally {
        console.error(host.log);
        await host.end();
    }
}

await place();
try {
    await run();
} catch (error) {
    console.error(String(error));
    process.exitCode = 1;
} finally {
    rmSync(project, { recursive: true, force: true });
}
