// Tool calls that wait for an approval because their clients cannot show questions.

import { get, post } from "/page/api.js";
import { button, h, keyed, notify, setText } from "/page/dom.js";
import { span, visible } from "/page/words.js";

// The interval of polls, in milliseconds.
const PERIOD = 3_000;

// A list that is hidden while nothing waits. `isShown` selects the approvals.
export function approvals(scope, isShown = () => true) {
  const list = h("div", { class: "models" });
  const place = h("section", { "aria-label": "Approvals", hidden: true }, h("h2", {}, "Waiting for approval"), list);
  load();
  scope.every(PERIOD, load);
  return place;

  async function load() {
    try {
      const waiting = (await get("/api/v1/questions")).data.filter(isShown);
      if (scope.closed) return;
      place.hidden = waiting.length === 0;
      keyed(list, waiting, (one) => one.id, approval);
    } catch {
      // The overview shows the problem of the host.
    }
  }

  function approval(one) {
    const left = h("span", { class: "dim" });
    const tool = visible(one.data.tool);
    const card = h("div", { class: "card models" },
      h("p", {}, h("strong", {}, tool), " with ", h("code", {}, visible(JSON.stringify(one.data.arguments)))),
      h("p", { class: "dim" }, [one.model && `model ${one.model}`, one.user && `user ${one.user}`, one.host && `host ${one.host}`].filter(Boolean).map(visible).join(" · "), " ", left),
      h("p", { class: "actions" },
        button("Approve", () => answer(one, true), { class: "main", "aria-label": `Approve ${tool}` }),
        button("Reject", () => answer(one, false), { class: "danger", "aria-label": `Reject ${tool}` })));
    card.update = (one) => setText(left, `${span(Math.ceil(one.left_ms / 1000))} left`);
    return card;
  }

  async function answer(one, approved) {
    try {
      await post(`/api/v1/questions/${one.id}`, { approved });
    } catch (error) {
      notify(error.message);
    }
    load();
  }
}
