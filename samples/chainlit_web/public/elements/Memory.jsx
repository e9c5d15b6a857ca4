// The side panel. `panel.py` and `builder.py` make its props. Looking asks by a window message (public/links.js) and
// changes nothing; whatever changes something is an action of the user.

import { useState } from 'react';

const TABS = { about: 'Memory', stored: 'Stored', view: 'What the model saw', agent: 'Agent' };

const ask = (asked) => window.askMemory(asked);
const number = (value) => Math.round(value || 0).toLocaleString('en');
const day = (text) => new Date(text).toLocaleDateString(undefined, { dateStyle: 'medium' });

function Link({ label, onClick, children }) {
  return (
    <button type="button" className="mc-link" aria-label={label} onClick={onClick}>
      {children}
    </button>
  );
}

// A line of text with a button; `onSubmit` gets the text.
function Line({ label, hint, button, begun, onSubmit }) {
  const [text, setText] = useState(begun || '');
  const submit = (event) => {
    event.preventDefault();
    onSubmit(text);
  };
  return (
    <form className="mc-row" onSubmit={submit}>
      <input aria-label={label} placeholder={hint} value={text} onChange={(event) => setText(event.target.value)} />
      <button className="mc-button">{button}</button>
    </form>
  );
}

function About({ act }) {
  const change = (payload) => act('Memory', { ...payload, show: 'about' });
  return (
    <>
      <p className="mc-quiet">Agents are told these facts and preferences when a chat begins.</p>
      <Line
        key={props.statements.length}
        label="A statement about you"
        hint="I prefer short answers"
        button="Add"
        onSubmit={(text) => change({ does: 'add', text })}
      />
      <ul className="mc-list mc-known">
        {props.statements.map((one) => (
          <Statement key={one.key} one={one} change={change} />
        ))}
      </ul>
      {props.unconfirmed.length ? <h4>Not confirmed by you</h4> : null}
      <ul className="mc-list mc-claims">
        {props.unconfirmed.map((one) => (
          <Statement key={one.key} one={one} change={change} isClaim />
        ))}
      </ul>
      <h4>Notes of the agents</h4>
      {props.notes.map((one) => (
        <Notes key={`${one.agent} ${one.version}`} {...one} change={change} />
      ))}
      {props.secrets.length ? <h4>Secrets: agents know these names, and no value</h4> : null}
      <ul className="mc-list mc-secrets">
        {props.secrets.map(({ name, has_value }) => (
          <li key={name}>
            <code>{name}</code> {has_value ? '' : '(not set here)'}
            <Link label={`Delete ${name}`} onClick={() => change({ does: 'delete secret', key: name })}>
              Delete
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}

function Statement({ one, change, isClaim }) {
  const [isEdited, setIsEdited] = useState(false);
  const act = (does, text) => change({ does, key: one.key, text });
  return (
    <li>
      {isEdited ? (
        <Line label="Edit" begun={one.text} button="Save" onSubmit={(text) => act('edit', text)} />
      ) : (
        <span className="mc-text">{one.text}</span>
      )}
      {one.quote ? <q className="mc-quiet">{one.quote}</q> : null}
      <span className="mc-quiet">
        {one.type} · {one.basis} · since {day(one.since)}
      </span>
      <span className="mc-row">
        {isClaim ? <Link onClick={() => act('confirm')}>Confirm</Link> : null}
        <Link onClick={() => setIsEdited(!isEdited)}>{isEdited ? 'Cancel' : 'Edit'}</Link>
        <Link onClick={() => window.confirm('Erase this for good?') && act('forget')}>Forget</Link>
      </span>
    </li>
  );
}

function Notes({ agent, text, version, change }) {
  const [edited, setEdited] = useState(text);
  return (
    <>
      <textarea aria-label={`Notes of ${agent}`} value={edited} onChange={(event) => setEdited(event.target.value)} />
      <button className="mc-button" onClick={() => change({ does: 'save notes', agent, text: edited, version })}>
        Save the notes of {agent}
      </button>
    </>
  );
}

function Stored({ act }) {
  const shown = { show: 'stored', scope: props.scope, query: props.query };
  const forget = (key) =>
    window.confirm('Erase this content for good, in every chat that holds it?') &&
    act('Memory', { ...shown, does: 'forget', key });
  return (
    <>
      <Line
        key={props.query}
        label="Search in the memory"
        hint="Search: words, an error, a name…"
        button="Search"
        begun={props.query}
        onSubmit={(query) => ask({ ...shown, query })}
      />
      <label className="mc-row">
        <input
          type="checkbox"
          checked={props.scope === 'all'}
          onChange={(event) => ask({ ...shown, scope: event.target.checked ? 'all' : 'chat' })}
        />
        in all my chats
      </label>
      {props.items.length ? null : <p className="mc-quiet">Nothing is stored here, or nothing answers this.</p>}
      <ul className="mc-list mc-items">
        {props.items.map((item) => (
          <li key={item.key}>
            <Link onClick={() => ask({ show: 'item', key: item.key })}>{item.title}</Link>
            {item.passage ? <span className="mc-passage">{item.passage}</span> : null}
            <span className="mc-quiet">
              {number(item.tokens)} tokens · {item.type} · {item.source} · {day(item.created)}
            </span>
            <Link label={`Forget ${item.title}`} onClick={() => forget(item.key)}>
              Forget
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}

function Item() {
  const { key, title, tokens, source, text, start, end, lines } = props;
  const turn = (start) => ask({ show: 'item', key, start });
  return (
    <>
      <h4 className="mc-text">{title || key}</h4>
      <p className="mc-quiet">
        <code>{key}</code> {tokens ? `· ${number(tokens)} tokens · from ${source}` : ''}
      </p>
      <pre className="mc-content">{text}</pre>
      <p className="mc-row mc-pages">
        lines {number(start)}–{number(end)} of {number(lines)}
        {start > 1 ? <Link onClick={() => turn(Math.max(1, start - 300))}>Before</Link> : null}
        {end < lines ? <Link onClick={() => turn(end + 1)}>After</Link> : null}
      </p>
    </>
  );
}

function View() {
  const agents = props.agents.filter((agent) => agent.segments.length);
  if (!agents.length) return <p className="mc-quiet">The model has not been asked since this chat was opened.</p>;
  return agents.map((agent) => (
    <section key={agent.name}>
      <p>
        <b>{agent.name}</b> was sent <b>{number(agent.tokens)}</b> tokens of the conversation
        {agent.budget ? `, within a budget of ${number(agent.budget)}` : ''}. Everything would have been{' '}
        {number(agent.raw)}. The first {number(agent.stable)} are the same as in the call before.{' '}
        <a href={agent.inspect} target="_blank" rel="noreferrer">
          Every call, word for word
        </a>
      </p>
      <table className="mc-view">
        <tbody>
          {agent.segments.map((segment, place) => (
            <tr key={place}>
              <td>
                {segment.source} <span className="mc-quiet">{segment.kind}</span>
                {segment.keys.map((key) => (
                  <Link key={key} onClick={() => ask({ show: 'item', key })}>
                    {key}
                  </Link>
                ))}
                <span className="mc-quiet">{segment.why}</span>
              </td>
              <td>{segment.state}</td>
              <td>
                {number(segment.tokens)}
                {segment.full_tokens === segment.tokens ? '' : ` of ${number(segment.full_tokens)}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  ));
}

function Agent({ act }) {
  const [json, setJson] = useState(props.json);
  const [found, setFound] = useState(null);
  const write = (text) => {
    setJson(text);
    setFound(null);
  };
  const check = async () => setFound(await act('Agent', { json }));
  const who = props.is_pasted ? `A pasted agent answers: ${props.agents.join(', ')}.` : 'The reader of the code answers.';
  if (!props.is_operator)
    return <p>{who} Operators can change who answers: loading an agent may run code on this server.</p>;
  return (
    <>
      <p>{who}</p>
      {props.is_pasted ? <Link onClick={() => act('Agent', { json: '' })}>Go back to the reader</Link> : null}
      <label htmlFor="mc-json">Paste an agent or a team, as AutoGen component JSON</label>
      <textarea id="mc-json" spellCheck={false} value={json} onChange={(event) => write(event.target.value)} />
      <p className="mc-quiet mc-row">
        Each agent in it gets a memory of its own.
        <Link onClick={() => write(JSON.stringify(props.example, null, 2))}>Show an example</Link>
      </p>
      {found ? <p>It has the agents {found.agents.join(', ')}.</p> : null}
      {found?.reach.length ? <p className="mc-problem">It runs code, or reaches beyond the chat:</p> : null}
      {found?.reach.map((one) => <p key={one}>{one}</p>)}
      <div className="mc-row">
        <button className="mc-button" disabled={!json.trim()} onClick={check}>
          Check
        </button>
        <button className="mc-button" disabled={!found} onClick={() => act('Agent', { json, use: true })}>
          Go on with it
        </button>
      </div>
    </>
  );
}

export default function Memory() {
  const [problem, setProblem] = useState('');
  const act = async (name, payload) => {
    setProblem('');
    try {
      const { response } = await callAction({ name, payload });
      if (!response.error) return response;
      setProblem(response.error);
    } catch (error) {
      setProblem(`The server did not answer: ${error.message}`);
    }
    return null;
  };
  const Shown = { about: About, stored: Stored, item: Item, view: View, agent: Agent }[props.tab];
  const told = props.error || problem;
  return (
    <div className="mc-panel" data-asked={props.asked}>
      <div className="mc-tabs" role="tablist">
        {Object.entries(TABS).map(([name, words]) => (
          <button key={name} role="tab" aria-selected={props.tab === name} onClick={() => ask({ show: name })}>
            {words}
          </button>
        ))}
      </div>
      {told ? (
        <p className="mc-problem" role="alert">
          {told}
        </p>
      ) : null}
      {props.error ? null : <Shown act={act} />}
    </div>
  );
}
