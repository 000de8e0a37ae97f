"use strict";
// Sends the file of a module as the body of a request, and its signature as a header: multipart forms are not read by the extender.
(() => {
  const form = document.getElementById("upload");
  if (!form) return;
  const problem = form.querySelector("[role=alert]");
  const button = form.querySelector("button");

  // A header has one line of text.
  async function headerOf(file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    if (bytes.some((each) => each > 126)) return btoa(String.fromCharCode(...bytes));
    return new TextDecoder().decode(bytes).trim().replace(/\s*\n\s*/g, "");
  }

  async function send() {
    const file = form.elements.module.files[0];
    const limit = Number(form.dataset.limit);
    if (file.size > limit) return `The file has ${file.size} bytes; runtime.moduleLimit allows ${limit}.`;
    const query = new FormData(form);
    query.delete("module");
    query.delete("signature");
    const headers = { "Content-Type": "application/wasm" };
    const signature = form.elements.signature.files[0];
    if (signature) {
      const most = Number(form.dataset.signatureLimit);
      if (signature.size > most) return `The signature has ${signature.size} bytes; at most ${most} are allowed.`;
      headers["X-Signature"] = await headerOf(signature);
    }
    const answer = await fetch(`${form.action}?${new URLSearchParams(query)}`, { method: "POST", headers, body: file });
    if (answer.ok) return location.assign(answer.url);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    return page.querySelector("main [role=alert]")?.textContent ?? `The extender answered with status ${answer.status}.`;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.textContent = "";
    problem.textContent = (await send().catch(() => "The extender does not answer; try again.")) ?? "";
    button.disabled = false;
  });
  form.closest("section").hidden = false;
})();
