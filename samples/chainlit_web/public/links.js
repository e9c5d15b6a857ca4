// What Chainlit's page cannot do by itself: links that open the side panel, and the demo logins on the login page.
// Nothing here changes anything on the server.

const ITEM = '#memory/';
const PANEL = '#memory-panel/';

const LOOK_EVERY_MS = 100;
const FIRST_LOOKS = 8;
const MOST_LOOKS = 600;

// Asks the server to show something in the panel, again until it does: Chainlit drops what is posted while its socket
// connects. Each wait is twice as long as the one before, so that a slow server is not asked more and more. The panel carries the number of what was asked, so that it is known when it is there.
let number = 0;
window.askMemory = (asked) => {
  const id = `${Date.now()}-${++number}`;
  const mine = number;
  let looks = 0;
  let nextAsk = 0;
  const look = () => {
    const isShown = document.querySelector(`.mc-panel[data-asked="${id}"]`);
    if (isShown || number !== mine || looks > MOST_LOOKS) return;
    if (looks++ === nextAsk) {
      nextAsk = 2 * nextAsk + FIRST_LOOKS;
      window.postMessage({ memory_context: { ...asked, id } }, window.location.origin);
    }
    setTimeout(look, LOOK_EVERY_MS);
  };
  look();
};

document.addEventListener(
  'click',
  (event) => {
    const link = event.target.closest?.('a[href^="#memory"], button');
    const inner = link?.matches('button') ? link.querySelector(':scope > a[href^="#memory"]') : link;
    const address = inner?.getAttribute('href');
    if (!address) return;
    event.preventDefault();
    event.stopPropagation();
    if (address.startsWith(ITEM)) window.askMemory({ show: 'item', key: address.slice(ITEM.length) });
    else if (address.startsWith(PANEL)) window.askMemory({ show: address.slice(PANEL.length) });
  },
  true
);

const hint = document.querySelector('meta[name="login-hint"]')?.content;
if (hint) {
  const place = () => {
    const form = document.querySelector('form');
    if (!form || !document.querySelector('#password') || document.querySelector('.mc-login-hint')) return;
    const line = document.createElement('p');
    line.className = 'mc-login-hint';
    line.textContent = hint;
    form.append(line);
  };
  new MutationObserver(place).observe(document.documentElement, { childList: true, subtree: true });
  place();
}
