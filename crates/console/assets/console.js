// What a page does beyond its links and forms. Each part is of no effect where its elements are absent.
document.documentElement.classList.add("js");

// Copy: the text of the command beside the button.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const from = button.closest(".command, .card")?.querySelector("code, pre");
  if (!from) return;
  try {
    await navigator.clipboard.writeText(from.textContent);
    const said = button.querySelector("span");
    said.textContent = "Copied";
    setTimeout(() => { said.textContent = "Copy"; }, 2000);
  } catch {
    // The browser does not allow it: the text is selected, to be copied by hand.
    getSelection().selectAllChildren(from);
  }
});

// A link to the login may carry a secret behind the #, which browsers send to no server: that of a login link, or a token.
// It is filled in and taken out of the address; the person sends it.
const login = document.querySelector("form[action='/console/login']");
if (login && /^#wr[lt]_/.test(location.hash)) {
  login.elements.token.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  login.querySelector("button").focus();
}
