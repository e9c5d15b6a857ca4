/** Light or dark as chosen here, else as the system has it. It runs before the page is painted, so it is no module. */
(() => {
  const key = "web-chat/theme";
  const { style } = document.documentElement;
  style.colorScheme = localStorage.getItem(key) ?? "";
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").onclick = () => {
      const isDark = (style.colorScheme || matchMedia("(prefers-color-scheme: dark)").matches && "dark") === "dark";
      style.colorScheme = isDark ? "light" : "dark";
      localStorage.setItem(key, style.colorScheme);
    };
  });
})();
