// Node.js reads the refusal of a body over the limit, however it sends that body.
//
// Usage: node too_large.cjs URL.
"use strict";

const { ok, strictEqual } = require("node:assert");
const { request } = require("node:http");

const url = process.argv[2];
const headers = { "content-type": "application/json" };
const megabyte = "x".repeat(1 << 20);

function* pieces(megabytes) {
    for (let count = 0; count < megabytes; count += 1) yield Buffer.from(megabyte);
}

async function byFetch(body) {
    const answer = await fetch(url, { method: "POST", headers, body, duplex: "half" });
    return [answer.status, await answer.text()];
}

function byRequest(body) {
    return new Promise((resolve, reject) => {
        const asked = request(url, { method: "POST", headers: { ...headers, "content-length": body.length } }, (answer) => {
            let text = "";
            answer.on("data", (data) => (text += data));
            answer.on("end", () => resolve([answer.statusCode, text]));
        });
        asked.on("error", reject);
        asked.end(body);
    });
}

async function main() {
    const large = megabyte.repeat(40);
    for (let round = 0; round < 3; round += 1) {
        for (const [way, ask] of [
            ["fetch", () => byFetch(large)],
            ["fetch in pieces", () => byFetch(ReadableStream.from(pieces(40)))],
            ["request", () => byRequest(Buffer.from(large))],
        ]) {
            const [status, text] = await ask();
            strictEqual(status, 413, `${way}: ${text}`);
            ok(JSON.parse(text).error.message, way);
        }
    }
    console.log("each body over the limit was refused with 413");
}

main();
