// The cart lives in the browser; adding says so in place.
const cart = JSON.parse(localStorage.getItem("cart") ?? "[]");
const show = () => (document.getElementById("count").textContent = cart.length);
function add(button) {
  const form = button.form;
  const quantity = form ? form.quantity.value : "1";
  cart.push({ name: button.dataset.name, quantity });
  localStorage.setItem("cart", JSON.stringify(cart));
  show();
  const said = document.getElementById("said");
  if (said) said.textContent = `${quantity} × ${button.dataset.name} added to the cart`;
}
function rows() {
  const place = document.getElementById("cart");
  if (!place) return;
  place.innerHTML = cart.length
    ? `<table><caption>Cart</caption>${cart.map((one, n) => `<tr><td>${one.name}</td>
       <td><input type="number" aria-label="Quantity of ${one.name}" value="${one.quantity}"></td>
       <td><button class="remove" data-at="${n}">Remove</button></td></tr>`).join("")}</table>`
    : "<p>Your cart is empty.</p>";
}
document.addEventListener("click", (event) => {
  if (event.target.matches("button.add")) {
    event.preventDefault();
    add(event.target);
  } else if (event.target.matches("button.remove")) {
    cart.splice(Number(event.target.dataset.at), 1);
    localStorage.setItem("cart", JSON.stringify(cart));
    show();
    rows();
  }
});
document.getElementById("news").addEventListener("submit", (event) => {
  event.preventDefault();
  event.target.innerHTML = "<p>You are subscribed.</p>";
});
document.getElementById("items")?.setAttribute("value", JSON.stringify(cart));
show();
rows();
