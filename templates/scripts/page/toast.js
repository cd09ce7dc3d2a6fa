// Short messages that fade.

let bubble = null;
let fading = 0;

export function toast(text) {
  if (!bubble) {
    bubble = document.createElement("div");
    bubble.className = "toast";
    bubble.setAttribute("role", "status");
    document.body.append(bubble);
  }
  bubble.textContent = text;
  bubble.classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => bubble.classList.remove("shown"), 4000);
}
