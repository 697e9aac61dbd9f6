// How undici, the client and server library of Node.js, reads forms. Usage: form_readers.cjs FILE, with a form a line: its
// `type` and its `body` in base64. For each a line goes to stdout: the names and values of its fields, and `true` for files;
// or null.
const fs = require("node:fs");

async function read({ type, body }) {
  try {
    const form = await new Response(Buffer.from(body, "base64"), { headers: { "content-type": type } }).formData();
    const fields = [];
    for (const [name, value] of form) {
      const isFile = typeof value !== "string";
      fields.push([name, isFile ? await value.text() : value, isFile]);
    }
    return fields;
  } catch {
    return null;
  }
}

(async () => {
  for (const line of fs.readFileSync(process.argv[2], "utf8").split("\n").filter(Boolean)) {
    console.log(JSON.stringify(await read(JSON.parse(line))));
  }
})();
