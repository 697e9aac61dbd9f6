// Pictures beside words, drawn as outlines in the color of the text. Screen readers skip them.

const PATHS = {
  overview: "M3 12l3-6 4 10 4-13 3 9h4",
  chat: "M4 5h16v11H10l-5 4v-4H4z",
  requests: "M8 6h13M8 12h13M8 18h13M3 6h1M3 12h1M3 18h1",
  plugins: "M4 8v8l8-4zM20 8v8l-8-4zM12 12V5M9 5h6",
  usage: "M4 20V10M10 20V4M16 20v-7M21 20H3",
  keys: "M14 10a4 4 0 1 0-1.5 3.1L15 15h2v2h2v2h3v-3l-6.3-6z",
  coverage: "M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6zM8.5 12l2.5 2.5 4.5-5",
  models: "M12 3l9 5-9 5-9-5zM3 12.5l9 5 9-5M3 17l9 5 9-5",
  mcp: "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4",
  runs: "M5 4l6 4-6 4zM13 8h7M5 20l6-4M13 16h7",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4",
  good: "M5 12.5l4.5 4.5L19 7",
  bad: "M12 4v10M12 18.5v1",
  back: "M15 5l-7 7 7 7",
};

export function icon(name) {
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  picture.setAttribute("viewBox", "0 0 24 24");
  picture.setAttribute("class", "icon");
  picture.setAttribute("aria-hidden", "true");
  path.setAttribute("d", PATHS[name]);
  picture.append(path);
  return picture;
}
