document.getElementById("first").onclick = ({ target }) => (target.textContent = "Pressed first");
document.getElementById("last").onclick = ({ target }) => (target.textContent = "Pressed last");
