"use strict";
// Shows the parts of a page anew after each step of a rollout. Hidden pages listen to nothing: a browser has few connections to a host.
(() => {
  if (!document.querySelector("main[data-live]")) return;
  const status = document.getElementById("step");
  let events = null;
  let timer = 0;

  async function refresh() {
    timer = 0;
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected) return location.reload();
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-part]")) {
      const next = fresh.getElementById(part.id);
      if (next && !part.contains(document.activeElement)) part.replaceWith(document.adoptNode(next));
    }
  }

  function later() {
    timer ||= setTimeout(() => refresh().catch(() => {}), 200);
  }

  function follow() {
    if (document.hidden) {
      events?.close();
      events = null;
    } else if (!events) {
      events = new EventSource("/ui/events");
      events.onopen = later;
      events.onmessage = (event) => {
        status.textContent = JSON.parse(event.data);
        later();
      };
      events.onerror = () => {
        if (events?.readyState !== EventSource.CLOSED) return;
        status.textContent = "This page is not live any more; reload it.";
        later();  // Leads to the form to sign in if the session is over.
      };
    }
  }

  document.addEventListener("visibilitychange", follow);
  follow();
})();
