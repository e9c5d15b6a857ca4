// What Chainlit's page cannot do by itself: links that open the side panel, patience with a server that restarts, and
// the demo logins on the login page. Nothing here changes anything on the server.

const WHO_AGAIN_MS = 500;
const ASK_AGAIN_MS = 2000; // an answer that comes twice builds the page anew, and a click at that moment is lost
const MOST_ASKS = 6;

// Chainlit's page asks now and then who is logged in. If the server does not answer, it takes nobody to be, and leaves
// the chat for the login page: so ask until it answers.
const fetchOnce = window.fetch;
window.fetch = async (asked, options) => {
  const isWho = new URL(asked.url ?? asked, window.location).pathname.endsWith('/user');
  for (;;) {
    try {
      return await fetchOnce(asked, options);
    } catch (error) {
      if (!isWho || options?.signal?.aborted) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, WHO_AGAIN_MS));
  }
};

// Asks the server to show something in the panel, and again until it does: Chainlit drops what is posted while its
// socket connects. The panel carries the id of the question.
let last = 0;
window.askMemory = (asked) => {
  const number = ++last;
  const id = `${Date.now()}-${number}`;
  const post = (asks, wait) => {
    if (number !== last || asks === 0 || document.querySelector(`.mc-panel[data-asked="${id}"]`)) return;
    window.postMessage({ memory_context: { ...asked, id } }, window.location.origin);
    setTimeout(post, wait, asks - 1, 2 * wait); // twice as long: a slow server is not asked more and more
  };
  post(MOST_ASKS, ASK_AGAIN_MS);
};

// '#memory' opens the panel, '#memory/<key>' an item in it. The header puts its links into buttons.
document.addEventListener(
  'click',
  (event) => {
    const target = event.target.closest?.('a, button');
    const link = target?.matches('button') ? target.querySelector(':scope > a') : target;
    const address = link?.getAttribute('href') || '';
    if (address !== '#memory' && !address.startsWith('#memory/')) return;
    event.preventDefault();
    event.stopPropagation();
    const key = address.slice('#memory/'.length);
    window.askMemory(key ? { show: 'item', key } : { show: 'about' });
  },
  true
);

// The server could not read the thread of this page: load it again, from wherever Chainlit has gone with it.
window.addEventListener('message', ({ data }) => {
  const thread = data?.memory_context?.thread;
  if (thread) window.location.assign(`/thread/${encodeURIComponent(thread)}`);
});

const hint = document.querySelector('meta[name="description"]')?.content;
new MutationObserver(() => {
  const form = document.querySelector('form:has(#password)');
  if (!form || form.querySelector('.mc-hint')) return;
  const line = document.createElement('p');
  line.className = 'mc-hint';
  line.textContent = hint;
  form.append(line);
  form.querySelector('label[for="email"]').textContent = 'User name';
  form.querySelector('#email').placeholder = '';
}).observe(document.documentElement, { childList: true, subtree: true });
