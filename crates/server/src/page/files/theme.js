// Light or dark, chosen before anything is drawn: as the system has it unless somebody chose otherwise here.

const CHOICE = "valvehouse.theme";

function chosen() {
  try {
    return localStorage.getItem(CHOICE) ?? "auto";
  } catch {
    // A browser that keeps nothing shows what the system says.
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
      // It then holds until the page is left.
    }
  });
});
