// Light or dark, before anything is drawn: what was chosen here last time, else what the system says.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  // A page opened from a file may be refused its storage.
  const remembered = () => { try { return localStorage.getItem("nuq-theme"); } catch { return null; } };
  const remember = theme => { try { localStorage.setItem("nuq-theme", theme); } catch { /* forgotten with the page */ } };
  let chosen = remembered();
  const apply = () => {
    const theme = chosen || (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = theme === "dark" ? "Light" : "Dark";
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      remember(chosen);
      apply();
    });
  });
})();
