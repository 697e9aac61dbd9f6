// The color theme, set before the first paint: that of the system, unless the user chose another one.

const CHOICE = "valvehouse.theme";

function chosen() {
  try {
    return localStorage.getItem(CHOICE) ?? "auto";
  } catch {
    // Without local storage the page uses the theme of the system.
    return "auto";
  }
}

function show(theme) {
  document.documentElement.dataset.theme = theme;
}

show(chosen());

addEventListener("DOMContentLoaded", () => {
  const select = document.getElementById("theme");
  select.value = chosen();
  select.addEventListener("change", () => {
    show(select.value);
    try {
      localStorage.setItem(CHOICE, select.value);
    } catch {
      // The choice then lasts until the page is closed.
    }
  });
});
