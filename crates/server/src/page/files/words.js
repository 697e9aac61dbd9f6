// Numbers and times in readable form.

export function time(microseconds) {
  if (microseconds === null || microseconds === undefined) return "";
  if (microseconds < 1000) return `${round(microseconds)} µs`;
  if (microseconds < 1e6) return `${round(microseconds / 1000)} ms`;
  if (microseconds < 6e7) return `${round(microseconds / 1e6)} s`;
  return span(microseconds / 1e6);
}

function round(number) {
  return number < 10 ? Number(number.toFixed(1)) : Math.round(number);
}

// A number with at most four significant digits.
export function number(value) {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  return Number(value.toPrecision(value < 1000 ? 4 : 6)).toLocaleString("en", { maximumFractionDigits: 6 });
}

export function ms(milliseconds) {
  return milliseconds === null || milliseconds === undefined ? "–" : milliseconds === 0 ? "0 ms" : time(milliseconds * 1000);
}

// Seconds: `3 d 4 h`, `12 min`.
export function span(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0 s";
  const [unit, size] = units[first];
  const whole = Math.floor(seconds / size);
  const [next, nextSize] = units[first + 1] ?? [];
  const rest = next ? Math.floor((seconds % size) / nextSize) : 0;
  return rest > 0 ? `${whole} ${unit} ${rest} ${next}` : `${whole} ${unit}`;
}

export function bytes(number) {
  if (!number) return "0 B";
  const units = ["B", "KiB", "MiB", "GiB"];
  const step = Math.min(Math.floor(Math.log2(number) / 10), units.length - 1);
  return `${round(number / 1024 ** step)} ${units[step]}`;
}

// The name of a host's computer, without the random part of its id.
export function computer(host) {
  return host.replace(/-[0-9a-f-]{36}$/, "");
}

export function count(number, one) {
  return `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;
}

export function clock(when) {
  const date = typeof when === "number" ? new Date(when * 1000) : new Date(when);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString("en-GB");
}

export function day(when) {
  const date = typeof when === "number" ? new Date(when * 1000) : new Date(when);
  return Number.isNaN(date.getTime()) ? "" : `${date.toLocaleDateString("en-CA")} ${date.toLocaleTimeString("en-GB")}`;
}

// The time of a moment today, the day and time of another one.
export function moment(when) {
  const [then] = day(when).split(" ");
  return then === day(Date.now() / 1000).split(" ")[0] ? clock(when) : day(when);
}

export function plain(value) {
  if (typeof value === "string") return value;
  return JSON.stringify(value, null, 2) ?? "";
}

export function short(text, most) {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

// Makes invisible characters visible, so that an approved text has no hidden part.
export function visible(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}\p{Variation_Selector}\u115f\u1160\u2800\u3164\uffa0]/gu, (letter) =>
    letter === "\n" || letter === "\t" ? letter : `[U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
}
