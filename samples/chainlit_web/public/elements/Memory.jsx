// The side panel: what is stored, one item of it, what is known of the user, what the model saw, who answers. `panels.py` says what is in `props`.
// Looking asks by a window message and changes nothing; whatever changes something is an action of the user.

import { useState } from 'react';

const ask = (asked) => window.askMemory(asked); // public/links.js
const number = (value) => Math.round(value || 0).toLocaleString('en');
const time = (text) =>
  new Date(text).toLocaleString(undefined, {
    year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', timeZoneName: 'short'
  });

const day = (text) => new Date(text).toLocaleDateString(undefined, { year: 'numeric', month: 'short', day: 'numeric' });

function useChange(name) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const change = async (payload) => {
    setBusy(true);
    setProblem('');
    try {
      const { response } = await callAction({ name, payload });
      setProblem(response?.error || '');
      return !response?.error;
    } catch (error) {
      setProblem(`The server did not answer: ${error?.message || error}`);
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { busy, problem, change };
}

function Tabs({ tab }) {
  // on wide screens the links of the header are these tabs
  const tabs = [
    ['stored', 'Stored'],
    ['about', 'About you'],
    ['notes', 'Notes'],
    ['view', 'What the model saw'],
    ['agent', 'Agent']
  ];
  const [, words] = tabs.find(([name]) => name === tab) || tabs[0];
  return (
    <>
    <h3 className="mc-heading">{words}</h3>
    <div className="mc-tabs" role="tablist">
      {tabs.map(([name, words]) => (
        <button
          key={name}
          type="button"
          role="tab"
          aria-selected={tab === name || (tab === 'item' && name === 'stored')}
          onClick={() => ask({ show: name })}
        >
          {words}
        </button>
      ))}
    </div>
    </>
  );
}

function Search({ label, hint, words, begun, onSearch }) {
  const [text, setText] = useState(begun);
  return (
    <form
      className="mc-search"
      onSubmit={(event) => {
        event.preventDefault();
        onSearch(text);
      }}
    >
      <input aria-label={label} placeholder={hint} value={text} onChange={(event) => setText(event.target.value)} />
      <button type="submit" className="mc-button">
        {words}
      </button>
    </form>
  );
}

function Note() {
  return props.note ? (
    <p className="mc-quiet" role="status">
      {props.note}
    </p>
  ) : null;
}

function Forget({ words, onForget, onKeep }) {
  return (
    <span className="mc-confirm" role="alertdialog" aria-label="Forget this?">
      {words}
      <button type="button" className="mc-button mc-danger" onClick={onForget}>
        Forget it
      </button>
      <button type="button" className="mc-button mc-plain" onClick={onKeep}>
        Keep
      </button>
    </span>
  );
}

function Stored() {
  const query = props.query || '';
  const [asking, setAsking] = useState('');
  const [problem, setProblem] = useState('');
  const items = props.items || [];
  const show = (more) => ask({ show: 'stored', scope: props.scope, query, ...more });
  const forget = async (key) => {
    const { response } = await callAction({ name: 'Forget', payload: { key, scope: props.scope, query } });
    setAsking('');
    if (response?.error) setProblem(response.error);
  };
  return (
    <>
      <Search
        key={query}
        label="Search in the memory"
        hint="Search: words, an error, a name…"
        words="Search"
        begun={query}
        onSearch={(text) => show({ query: text })}
      />
      <div className="mc-scopes">
        <button type="button" aria-pressed={props.scope === 'chat'} onClick={() => show({ scope: 'chat' })}>
          This chat
        </button>
        <button type="button" aria-pressed={props.scope === 'all'} onClick={() => show({ scope: 'all' })}>
          All my chats
        </button>
        {query ? (
          <button type="button" onClick={() => show({ query: '' })}>
            Show everything
          </button>
        ) : null}
      </div>
      {problem ? <p className="mc-problem">{problem}</p> : null}
      <Note />
      {!items.length ? (
        <p className="mc-empty">
          {query
            ? 'Nothing that is stored answers this.'
            : props.scope === 'chat'
              ? 'Nothing is stored of this chat yet. Large results of tools are, and what you ask to be remembered.'
              : 'Nothing is stored of you yet.'}
        </p>
      ) : null}
      <ul className="mc-items">
        {items.map((item) => (
          <li key={item.key}>
            <button type="button" className="mc-item" onClick={() => ask({ show: 'item', key: item.key })}>
              <span className="mc-item-words">{item.title}</span>
              {item.rest ? <span className="mc-quiet">{item.rest}</span> : null}
              <span className="mc-quiet">
                {number(item.tokens)} tokens · {item.source} · {time(item.created)}
                {item.is_here ? '' : ' · another chat'}
              </span>
              {item.passage ? <span className="mc-passage">{item.passage}</span> : null}
            </button>
            {asking === item.key ? (
              <Forget
                words="Erase this content for good, in every chat that holds it?"
                onForget={() => forget(item.key)}
                onKeep={() => setAsking('')}
              />
            ) : (
              <button
                type="button"
                className="mc-forget"
                aria-label={`Forget ${item.title}`}
                onClick={() => setAsking(item.key)}
              >
                Forget
              </button>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

function Item() {
  const turn = (start) => ask({ show: 'item', key: props.key, start });
  return (
    <>
      <button type="button" className="mc-link" onClick={() => ask({ show: 'stored' })}>
        ← all that is stored
      </button>
      <div>
        <h3 className="mc-title">{props.title || props.key}</h3>
        {props.rest ? <p className="mc-quiet">{props.rest}</p> : null}
        <p className="mc-quiet">
          <code>{props.key}</code>
          {props.tokens ? ` · ${number(props.tokens)} tokens` : ''}
          {props.source ? ` · from ${props.source}` : ''}
          {props.created ? ` · ${time(props.created)}` : ''}
        </p>
      </div>
      <Search
        key={`${props.key} ${props.pattern}`}
        label="Find in this"
        hint="Find in this, as a regular expression"
        words="Find"
        begun={props.pattern || ''}
        onSearch={(pattern) => ask({ show: 'item', key: props.key, pattern })}
      />
      {props.text !== undefined ? <pre className="mc-content">{props.text}</pre> : null}
      {props.lines ? (
        <div className="mc-pages">
          <button
            type="button"
            className="mc-button mc-plain"
            disabled={props.start <= 1}
            onClick={() => turn(Math.max(1, props.start - 300))}
          >
            Before
          </button>
          <span className="mc-quiet">
            lines {number(props.start)}–{number(props.end)} of {number(props.lines)}
          </span>
          <button
            type="button"
            className="mc-button mc-plain"
            disabled={props.end >= props.lines}
            onClick={() => turn(props.end + 1)}
          >
            After
          </button>
        </div>
      ) : props.pattern && !props.error ? (
        <button type="button" className="mc-link" onClick={() => turn(1)}>
          show it from its beginning
        </button>
      ) : null}
    </>
  );
}

function View() {
  const agents = (props.agents || []).filter((agent) => agent.segments.length);
  if (!agents.length)
    return <p className="mc-empty">The model has not been asked since this chat was opened. Write something first.</p>;
  return agents.map((agent) => (
    <section key={agent.name} className="mc-agent">
      <p>
        <b>{agent.name}</b> was sent <b>{number(agent.tokens)}</b> tokens of the conversation
        {agent.budget ? `, within a budget of ${number(agent.budget)}` : ''}. Everything would have been{' '}
        {number(agent.raw)}. The first {number(agent.stable)} are the same as in the call before, which a prompt cache
        reads at a fraction of the price.
      </p>
      <table className="mc-segments">
        <thead>
          <tr>
            <th>What</th>
            <th>How</th>
            <th>Tokens</th>
          </tr>
        </thead>
        <tbody>
          {agent.segments.map((segment, place) => (
            <tr key={place}>
              <td>
                {segment.source} <span className="mc-quiet">{segment.kind}</span>
                {segment.keys.map((key) => (
                  <button
                    key={key}
                    type="button"
                    className="mc-link mc-key"
                    onClick={() => ask({ show: 'item', key })}
                  >
                    {key}
                  </button>
                ))}
                {segment.why ? <span className="mc-quiet mc-why">{segment.why}</span> : null}
              </td>
              <td>
                <span className={`mc-state mc-state-${segment.state}`}>{segment.state}</span>
              </td>
              <td className="mc-number">
                {number(segment.tokens)}
                {segment.full !== segment.tokens ? <span className="mc-quiet"> of {number(segment.full)}</span> : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {agent.decisions.length ? (
        <ul className="mc-decisions">
          {agent.decisions.map((decision, place) => (
            <li key={place}>{decision}</li>
          ))}
        </ul>
      ) : null}
    </section>
  ));
}

function Agent() {
  const [json, setJson] = useState(props.json || '');
  const [own, setOwn] = useState(Boolean(props.uses_own_model));
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState(props.error || '');
  const [busy, setBusy] = useState(false);
  const words = {
    reader: 'The reader answers: it lists, reads and searches the source of memory_context, and changes nothing.',
    coder: 'The coder answers: a CodeAgent with a shell. It runs commands on this server.',
    pasted: `What was pasted answers${props.agents?.length ? `: ${props.agents.join(', ')}` : ''}.`
  };
  const call = async (name, payload) => {
    setBusy(true);
    setProblem('');
    try {
      const { response } = await callAction({ name, payload: { uses_own_model: own, ...payload } });
      if (response?.error) {
        setProblem(response.error);
        setFound(null);
      } else if (name === 'Check agent') setFound(response);
    } catch (error) {
      setProblem(`The server did not answer: ${error?.message || error}`);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      {props.done ? <p className="mc-done">The chat goes on with this agent.</p> : null}
      <p>{words[props.agent]}</p>
      {!props.is_operator ? (
        <p className="mc-empty">Operators can change who answers: loading an agent may run code on this server.</p>
      ) : (
        <>
          <div className="mc-scopes">
            {['reader', 'coder'].map((name) => (
              <button
                key={name}
                type="button"
                disabled={busy}
                aria-pressed={props.agent === name}
                onClick={() => call('Agent', { agent: name })}
              >
                {name === 'reader' ? 'Reader' : 'Coder'}
              </button>
            ))}
          </div>
          {problem ? (
            <p className="mc-problem" role="alert">
              {problem}
            </p>
          ) : null}
          <label className="mc-label" htmlFor="mc-json">
            Or paste an agent or a team, as AutoGen component JSON
          </label>
          <textarea
            id="mc-json"
            className="mc-json"
            spellCheck={false}
            value={json}
            placeholder='{"provider": "autogen_agentchat.agents.AssistantAgent", "config": {…}}'
            onChange={(event) => {
              setJson(event.target.value);
              setFound(null);
            }}
          />
          <p className="mc-quiet">
            Each agent in it gets a memory context of its own and the tools to use it. Examples:{' '}
            {Object.entries(props.examples || {}).map(([name, example]) => (
              <button
                key={name}
                type="button"
                className="mc-link mc-example"
                onClick={() => {
                  setJson(JSON.stringify(example, null, 2));
                  setFound(null);
                }}
              >
                {name}
              </button>
            ))}
          </p>
          <label className="mc-check">
            <input type="checkbox" checked={own} onChange={(event) => setOwn(event.target.checked)} />
            Use the models it names instead of this application&apos;s
          </label>
          {found ? (
            <div className="mc-found">
              <p>
                <b>{found.kind === 'team' ? 'A team' : 'An agent'}</b>: {found.agents.join(', ')}
              </p>
              {found.reach.length ? (
                <>
                  <p className="mc-warning">It brings code, or reaches beyond the chat:</p>
                  <ul>
                    {found.reach.map((one, place) => (
                      <li key={place}>{one}</li>
                    ))}
                  </ul>
                </>
              ) : (
                <p className="mc-quiet">It brings no code of its own.</p>
              )}
              {found.notes.map((one, place) => (
                <p key={place} className="mc-quiet">
                  {one}
                </p>
              ))}
            </div>
          ) : null}
          <div className="mc-actions">
            <button
              type="button"
              className="mc-button mc-plain"
              disabled={busy || !json.trim()}
              onClick={() => call('Check agent', { json })}
            >
              Check
            </button>
            <button
              type="button"
              className="mc-button"
              disabled={busy || !found}
              onClick={() => call('Agent', { agent: 'pasted', json })}
            >
              Go on with it
            </button>
          </div>
        </>
      )}
    </>
  );
}

function About() {
  const [words, setWords] = useState('');
  const [type, setType] = useState('user_fact');
  const { busy, problem, change } = useChange('Change statement');
  const { statements = [], unconfirmed = [], secrets = [], with_earlier } = props;
  const add = async (event) => {
    event.preventDefault();
    if (await change({ does: 'add', statement: words, type, with_earlier })) setWords('');
  };
  return (
    <>
      <p className="mc-quiet">
        Preferences and facts that agents are told when a chat begins. You may change or forget any of them.
      </p>
      <form className="mc-search" onSubmit={add}>
        <input
          aria-label="A statement about you"
          placeholder="I prefer short answers"
          value={words}
          onChange={(event) => setWords(event.target.value)}
        />
        <select aria-label="What it is" value={type} onChange={(event) => setType(event.target.value)}>
          <option value="user_fact">Fact</option>
          <option value="user_preference">Preference</option>
        </select>
        <button type="submit" className="mc-button" disabled={busy || !words.trim()}>
          Add
        </button>
      </form>
      {problem ? <p className="mc-problem">{problem}</p> : null}
      {problem ? null : <Note />}
      {!statements.length && !props.error ? (
        <p className="mc-empty">Nothing is known of you yet. What you say of yourself in a chat is noted here.</p>
      ) : null}
      <ul className="mc-items mc-known">
        {statements.map((one) => (
          <Statement key={one.key} one={one} />
        ))}
      </ul>
      <div className="mc-scopes">
        <button
          type="button"
          aria-pressed={Boolean(with_earlier)}
          onClick={() => ask({ show: 'about', with_earlier: !with_earlier })}
        >
          Earlier ones too
        </button>
      </div>
      {unconfirmed.length ? (
        <section>
          <h4 className="mc-label">Not confirmed by you</h4>
          <p className="mc-quiet">A model, a tool or a file says this of you. It counts as yours once you confirm it.</p>
          <ul className="mc-items mc-claims">
            {unconfirmed.map((one) => (
              <Statement key={one.key} one={one} isClaim />
            ))}
          </ul>
        </section>
      ) : null}
      {secrets.length ? (
        <section>
          <h4 className="mc-label">Your secrets</h4>
          <p className="mc-quiet">Agents are told these names; no model and no page sees a value.</p>
          <p className="mc-secrets">
            {secrets.map((one) => (
              <span key={one.name}>
                <code>{one.has_value ? one.name : `${one.name} (not set here)`}</code>{' '}
                <button
                  type="button"
                  className="mc-link"
                  aria-label={`Delete ${one.name}`}
                  disabled={busy}
                  onClick={() => change({ does: 'delete secret', key: one.name, with_earlier })}
                >
                  Delete
                </button>
              </span>
            ))}
          </p>
        </section>
      ) : null}
    </>
  );
}

function Statement({ one, isClaim }) {
  const { key, text, type, since, until, quote, basis } = one;
  const [doing, setDoing] = useState('');
  const [edited, setEdited] = useState(text);
  const { busy, problem, change } = useChange('Change statement');
  const send = async (does, more) => {
    if (await change({ does, key, with_earlier: props.with_earlier, ...more })) setDoing('');
  };
  const button = (words, does) => (
    <button type="button" className="mc-link" aria-label={`${words}: ${text}`} disabled={busy} onClick={does}>
      {words}
    </button>
  );
  return (
    <li className={until ? 'mc-earlier' : undefined}>
      <div className="mc-item">
        <span className="mc-item-words">{text}</span>
        {quote && quote !== text ? <q className="mc-quiet">{quote}</q> : null}
        <span className="mc-quiet">
          {isClaim ? <b className="mc-warning">{basis}</b> : `${type} · ${basis}`} · {until ? 'from' : 'since'}{' '}
          <span title={time(since)}>{day(since)}</span>
          {until ? ` until ${day(until)}` : ''}
        </span>
      </div>
      {doing ? null : (
        <span className="mc-actions">
          {isClaim ? button('Confirm', () => send('confirm')) : null}
          {until ? null : button('Edit', () => setDoing('edit'))}
          {button('Forget', () => setDoing('forget'))}
        </span>
      )}
      {doing === 'edit' ? (
        <form
          className="mc-search mc-whole"
          onSubmit={(event) => {
            event.preventDefault();
            send('edit', { statement: edited });
          }}
        >
          <input aria-label="Edit the statement" autoFocus value={edited} onChange={(event) => setEdited(event.target.value)} />
          <button type="submit" className="mc-button" disabled={busy || !edited.trim() || edited === text}>
            Save
          </button>
          <button type="button" className="mc-button mc-plain" onClick={() => setDoing('')}>
            Cancel
          </button>
        </form>
      ) : null}
      {doing === 'forget' ? (
        <Forget words="Erase this for good?" onForget={() => send('forget')} onKeep={() => setDoing('')} />
      ) : null}
      {problem ? <p className="mc-problem mc-whole">{problem}</p> : null}
    </li>
  );
}

function Notes() {
  const notes = props.notes || [];
  return (
    <>
      <p className="mc-quiet">
        What each agent keeps about you for all chats. It writes here itself; you may change or delete anything.
      </p>
      <Note />
      {!notes.length && !props.error ? <p className="mc-empty">No agent has notes yet. Ask one to note something.</p> : null}
      {notes.map((one) => (
        <AgentNotes key={`${one.agent} ${one.version}`} {...one} />
      ))}
    </>
  );
}

function AgentNotes({ agent, text, version }) {
  const [edited, setEdited] = useState(text);
  const { busy, problem, change } = useChange('Save notes');
  const save = () => change({ agent, text: edited, version });
  return (
    <>
      <label htmlFor={`mc-notes-${agent}`}>
        <b>{agent}</b>
      </label>
      <textarea
        id={`mc-notes-${agent}`}
        className="mc-json mc-notes"
        value={edited}
        placeholder="No notes yet"
        onChange={(event) => setEdited(event.target.value)}
      />
      {problem ? <p className="mc-problem">{problem}</p> : null}
      <div className="mc-actions">
        <button type="button" className="mc-button" disabled={busy || edited === text} onClick={save}>
          Save
        </button>
      </div>
    </>
  );
}

export default function Memory() {
  const Shown = { stored: Stored, item: Item, about: About, notes: Notes, view: View, agent: Agent }[props.tab] || Stored;
  return (
    <div className="mc-panel" data-asked={props.asked}>
      <Tabs tab={props.tab} />
      {props.error && props.tab !== 'agent' ? <p className="mc-problem">{props.error}</p> : null}
      <Shown />
    </div>
  );
}
