// What the model was sent in this turn, beside what keeping everything would have sent, and the turns before it.

const ask = (asked) => window.askMemory(asked); // public/links.js
const number = (value) => Math.round(value).toLocaleString('en');

export default function TokenMeter() {
  const turns = props.turns || [];
  const turn = turns[turns.length - 1];
  if (!turn) return null;
  const sum = (name) => turns.reduce((total, one) => total + one[name], 0);
  const most = Math.max(...turns.map((one) => Math.max(one.raw_tokens, one.seen_tokens)), 1);
  const saved = sum('raw_tokens') - sum('seen_tokens');
  const cost = sum('raw_cost') ? sum('cost') / sum('raw_cost') : 1;
  return (
    <div className="mc-meter">
      <div
        className="mc-spark"
        role="img"
        aria-label={`Tokens of ${turns.length} turns: what was sent, and what everything would have been`}
      >
        {turns.slice(-24).map((one, place) => (
          <span key={place} className="mc-spark-turn" style={{ height: '100%' }}>
            <span className="mc-spark-raw" style={{ height: `${(one.raw_tokens / most) * 100}%` }} />
            <span className="mc-spark-seen" style={{ height: `${(one.seen_tokens / most) * 100}%` }} />
          </span>
        ))}
      </div>
      <div className="mc-meter-words">
        <span>
          <button type="button" className="mc-link" onClick={() => ask({ show: 'view' })}>
            What the model saw
          </button>
          : <b>{number(turn.seen_tokens)}</b> tokens in {turn.calls} call{turn.calls === 1 ? '' : 's'}; everything would
          have been {number(turn.raw_tokens)}
        </span>
        <span className="mc-quiet">
          In {turns.length} turn{turns.length === 1 ? '' : 's'}: {number(Math.abs(saved))} tokens {saved >= 0 ? 'saved' : 'more'}, cost {cost.toFixed(2)} of keeping
          everything
        </span>
        {props.light_model && (
          <span className="mc-quiet">Light model, in none of these figures: {props.light_model}</span>
        )}
      </div>
    </div>
  );
}
