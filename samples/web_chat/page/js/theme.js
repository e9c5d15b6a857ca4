/** Light or dark as chosen here, else as the system has it. Runs before the page is painted, so it is no module. */
(() => {
  const KEY = "web-chat/theme";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    root.dataset.theme = localStorage.getItem(KEY) ?? (dark.matches ? "dark" : "light");
  };
  dark.addEventListener("change", show);
  addEventListener("storage", show);
  show();
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      localStorage.setItem(KEY, root.dataset.theme === "dark" ? "light" : "dark");
      show();
    });
  });
})();
