// Chips for what was stored: each opens the item in the side panel.

const ask = (asked) => window.askMemory(asked); // public/links.js

export default function References() {
  return (
    <div className="mc-chips">
      {(props.refs || []).map((ref) => (
        <button
          key={ref.key}
          type="button"
          className="mc-chip"
          title={`Open ${ref.key}${ref.rest ? `: ${ref.rest}` : ''}`}
          onClick={() => ask({ show: 'item', key: ref.key })}
        >
          <span className="mc-chip-words">{ref.title ?? ref.description}</span>
          <span className="mc-chip-tokens">{ref.tokens.toLocaleString('en')} tokens</span>
        </button>
      ))}
    </div>
  );
}
