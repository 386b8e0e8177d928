// Sets the light or dark theme before the page is drawn: the stored choice, or the system setting if none is stored.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  // Browsers may deny storage to pages opened from a file.
  const load = () => { try { return localStorage.getItem("nuq-theme"); } catch { return null; } };
  const store = theme => { try { localStorage.setItem("nuq-theme", theme); } catch { /* the choice lasts until the page is closed */ } };
  let chosen = load();
  const apply = () => {
    const theme = chosen || (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = theme === "dark" ? "Light theme" : "Dark theme";
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      store(chosen);
      apply();
    });
  });
})();
