// Reads a document as a screen reader would. It runs as a Playwright selector engine, in a world of its own: scripts of
// the page can neither see nor change it. Selectors are commands; data come back as the value of a detached element.
//
//   probe                    document token, milliseconds since the last change, is it loaded, changes, address
//   capture ELEMENTS DEPTH KNOWN   the same, title, and the elements in document order (see `row`); none if these are
//                            what the capture KNOWN held
//   element TOKEN INDEX      an element of the last capture; none if the document is another one
(() => {
  const token = Math.random().toString(36).slice(2);
  const most = { visited: 200_000, characters: 4_000_000, name: 1000, milliseconds: 1500 };
  let elements = [];
  let newest = "";
  let captures = 0;
  let changes = 0;
  let changedAt = performance.now();
  let observer = null;
  const numbers = new WeakMap();
  let numbered = 0;

  const SKIPPED = new Set("SCRIPT STYLE TEMPLATE NOSCRIPT HEAD META LINK TITLE BASE PARAM SOURCE TRACK".split(" "));
  const ROLES = {
    ARTICLE: "article", ASIDE: "complementary", BLOCKQUOTE: "blockquote", BUTTON: "button", CODE: "",
    DATALIST: "listbox", DD: "definition", DETAILS: "group", DIALOG: "dialog", DT: "term", FIELDSET: "group",
    FIGURE: "figure", FOOTER: "contentinfo", FORM: "form", H1: "heading", H2: "heading", H3: "heading", H4: "heading",
    H5: "heading", H6: "heading", HEADER: "banner", HR: "separator", IFRAME: "iframe", FRAME: "iframe", LI: "listitem",
    MAIN: "main", MENU: "list", METER: "meter", NAV: "navigation", OL: "list", OPTGROUP: "group", OPTION: "option",
    OUTPUT: "status", P: "paragraph", PROGRESS: "progressbar", SEARCH: "search", SUMMARY: "button", TABLE: "table",
    TBODY: "", TD: "cell", TEXTAREA: "textbox", TH: "columnheader", TR: "row", UL: "list",
  };
  const INPUTS = {
    button: "button", submit: "button", reset: "button", image: "button", file: "button", color: "textbox",
    checkbox: "checkbox", radio: "radio", range: "slider", number: "spinbutton", search: "searchbox", hidden: "",
  };
  const INTERACTIVE = new Set(("button checkbox combobox gridcell link listbox menuitem menuitemcheckbox menuitemradio " +
    "option radio scrollbar searchbox slider spinbutton switch tab textbox treeitem").split(" "));
  const NAMED_BY_CONTENT = new Set(("button checkbox heading link menuitem menuitemcheckbox menuitemradio option radio " +
    "switch tab tooltip treeitem").split(" "));
  const FIELDS = new Set(["textbox", "searchbox", "combobox", "listbox", "slider", "spinbutton", "progressbar", "meter"]);
  const GENERATED = /^[:«_]|^(ember|mui|radix|headlessui|react-select|ext-gen|yui|cdk|mat-|ng-)|[0-9a-f]{8,}|[0-9]{7,}/i;

  const UNSEEN = /[\u0000-\u0008\u000e-\u001f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]/g; // turn text around, or hide
  const oneLine = (text) => text.slice(0, 8 * most.name).replace(UNSEEN, "").replace(/\s+/g, " ").slice(0, most.name);
  const numberOf = (element) => numbers.get(element) ?? (numbers.set(element, ++numbered), numbered);
  const attribute = (element, name) => oneLine(element.getAttribute(name) ?? "").trim();

  function textOf(element) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    let text = "";
    while (text.length < most.name && walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      if (!parent || !/^(SCRIPT|STYLE|TEXTAREA|OPTION)$/.test(parent.tagName)) text += walker.currentNode.data.slice(0, most.name);
    }
    return oneLine(text).trim();
  }

  function roleOf(element) {
    const given = attribute(element, "role").split(" ")[0];
    if (given) return given === "none" || given === "presentation" || given === "generic" ? "" : given;
    const tag = element.tagName;
    if (tag === "A" || tag === "AREA") return element.hasAttribute("href") ? "link" : "";
    if (tag === "INPUT") return INPUTS[element.type] ?? (element.list ? "combobox" : "textbox");
    if (tag === "SELECT") return element.multiple || element.size > 1 ? "listbox" : "combobox";
    if (tag === "IMG" || tag === "svg" || tag === "CANVAS" || tag === "VIDEO" || tag === "AUDIO") {
      return element.getAttribute("alt") === "" ? "" : "img";
    }
    if (tag === "SECTION") return element.hasAttribute("aria-label") || element.hasAttribute("aria-labelledby") ? "region" : "";
    if (element.isContentEditable && !element.parentElement?.isContentEditable) return "textbox";
    return ROLES[tag] ?? "";
  }

  function givenName(element) {
    const ids = attribute(element, "aria-labelledby");
    if (ids) {
      const root = element.getRootNode();
      const named = ids.split(" ").map((id) => root.getElementById?.(id)).filter(Boolean).map(textOf).join(" ").trim();
      if (named) return named.slice(0, most.name);
    }
    const label = attribute(element, "aria-label");
    if (label) return label;
    const tag = element.tagName;
    if (tag === "INPUT" && /^(submit|reset|button)$/.test(element.type)) {
      return oneLine(element.value || { submit: "Submit", reset: "Reset", button: "" }[element.type]);
    }
    const labels = element.labels;
    if (labels?.length) {
      const text = [...labels].slice(0, 3).map(textOf).join(" ").trim();
      if (text) return text;
    }
    if (/^(IMG|INPUT|AREA)$/.test(tag) && element.hasAttribute("alt")) return attribute(element, "alt");
    const inner = { FIELDSET: "legend", TABLE: "caption", FIGURE: "figcaption", svg: "title" }[tag];
    const title = inner && element.querySelector(`:scope > ${inner}`);
    return title ? textOf(title) : "";
  }

  function valueOf(element, role) {
    const tag = element.tagName;
    if (tag === "INPUT") {
      if (element.type === "password") return "•".repeat(Math.min(element.value.length, 8));
      if (element.type === "file") return [...element.files].map((file) => file.name).join(", ");
      return FIELDS.has(role) ? oneLine(element.value) : "";
    }
    if (tag === "TEXTAREA") return oneLine(element.value);
    if (tag === "SELECT") return oneLine([...element.selectedOptions].slice(0, 20).map((one) => one.label).join(", "));
    if (tag === "PROGRESS" || tag === "METER") return String(element.value);
    if (element.isContentEditable && role === "textbox") return textOf(element);
    return attribute(element, "aria-valuetext") || attribute(element, "aria-valuenow");
  }

  function statesOf(element) {
    const states = [];
    const aria = (name) => element.getAttribute(`aria-${name}`);
    const checked = element.tagName === "INPUT" && /^(checkbox|radio)$/.test(element.type)
      ? (element.indeterminate ? "mixed" : String(element.checked)) : aria("checked");
    if (checked === "true") states.push("checked");
    if (checked === "mixed") states.push("mixed");
    const current = aria("current");
    if (current && current !== "false") states.push("current");
    if (aria("disabled") === "true" || element.matches(":disabled")) states.push("disabled");
    const isOpen = element.tagName === "SUMMARY" ? String(element.parentElement?.open === true) : aria("expanded");
    if (isOpen === "true" || isOpen === "false") states.push(isOpen === "true" ? "expanded" : "collapsed");
    if (aria("invalid") === "true") states.push("invalid");
    if (aria("pressed") === "true") states.push("pressed");
    if (element.readOnly === true) states.push("readonly");
    if (element.required === true || aria("required") === "true") states.push("required");
    if (aria("selected") === "true" || (element.tagName === "OPTION" && element.selected)) states.push("selected");
    return states;
  }

  function keyOf(element, role) {
    const id = attribute(element, "data-testid") || attribute(element, "data-test") || element.id;
    if (id && typeof id === "string" && !GENERATED.test(id)) return id.slice(0, 100);
    if (role === "link") return attribute(element, "href").slice(0, 200);
    return element.form ? attribute(element, "name").slice(0, 100) : "";
  }

  function capture(mostElements, mostDepth, known) {
    const left = { ...most, elements: mostElements, until: performance.now() + most.milliseconds };
    let isCut = false;
    let nesting = 0;

    const isOver = () => {
      if (nesting > 800 || left.visited <= 0 || left.elements <= 0 || left.characters <= 0) return (isCut = true);
      if (left.visited % 256 === 0 && performance.now() > left.until) return (isCut = true);
      return false;
    };
    const made = (role, name, element, more) => {
      left.elements -= 1;
      left.characters -= name.length;
      return { role, name, element, value: "", states: [], key: "", children: [], ...more };
    };

    function childrenOf(element) {
      if (element.shadowRoot) return element.shadowRoot.childNodes;
      if (element.tagName === "DETAILS" && !element.open) {
        return [...element.children].filter((child) => child.tagName === "SUMMARY").slice(0, 1);
      }
      if (element.tagName === "SLOT") {
        const assigned = element.assignedNodes();
        if (assigned.length) return assigned;
      }
      return element.childNodes;
    }

    function inside(element, style, depth) {
      const found = [];
      for (const child of childrenOf(element)) {
        if (isOver()) break;
        left.visited -= 1;
        if (child.nodeType === 3) {
          if (style.visibility !== "visible") continue;
          const text = oneLine(child.data);
          if (text.trim()) found.push(made("text", text, element, { isDirect: true, isInline: true }));
        } else if (child.nodeType === 1) {
          visit(child, depth, style, found);
        }
      }
      return joined(found);
    }

    // Prose: a text of the element itself takes the inline texts beside it.
    function joined(nodes) {
      const all = [];
      for (const node of nodes) {
        const last = all[all.length - 1];
        if (last?.isInline && node.isInline && (last.isDirect || node.isDirect) && last.name.length < most.name) {
          last.name = `${last.name}${node.name}`.slice(0, most.name);
          last.isDirect = true;
        } else {
          all.push(node);
        }
      }
      return all;
    }

    const said = (nodes) => {
      let text = "";
      for (const node of nodes) {
        if (text.length >= most.name) break;
        text += node.name ? ` ${node.name}` : said(node.children);
      }
      return text;
    };
    const actedOn = (nodes) => nodes.flatMap((node) => {
      if (INTERACTIVE.has(node.role) || node.role === "iframe") return [node];
      return actedOn(node.children);
    });

    function visit(element, depth, above, found) {
      const tag = element.tagName;
      if (SKIPPED.has(tag) || element.inert || element.getAttribute("aria-hidden") === "true") return;
      const style = getComputedStyle(element);
      if (style.display === "none" || style.contentVisibility === "hidden") return;
      const isShown = style.visibility === "visible";
      const role = roleOf(element);
      if (tag === "svg" || tag === "SELECT" || tag === "TEXTAREA" || tag === "INPUT" || role === "iframe" || tag === "IMG") {
        if (isShown && role) found.push(atom(element, role));
        return;
      }
      const control = tag === "LABEL" ? element.control : null;
      nesting += 1;
      const inner = inside(element, style, Math.min(depth + 1, mostDepth));
      nesting -= 1;
      if (control) {
        found.push(...labelled(element, control, inner));
      } else if (role && isShown) {
        put(found, named(element, role, inner), depth);
      } else if (isShown && isClickable(element, style, above) && !actedOn(inner).length) {
        found.push(made("button", oneLine(givenName(element) || said(inner)).trim() || attribute(element, "title"), element,
          { states: statesOf(element), key: keyOf(element, "button") }));
      } else {
        pass(found, element, style, inner, depth);
      }
    }

    function isClickable(element, style, above) {
      if (element.tabIndex >= 0 && element.hasAttribute("tabindex")) return true;
      return element.hasAttribute("onclick") || (style.cursor === "pointer" && above.cursor !== "pointer");
    }

    function put(found, node, depth) {
      if (depth < mostDepth) {
        found.push(node);
      } else {
        found.push({ ...node, children: [] }, ...node.children); // too deep: its elements stand beside it
      }
    }

    // An element without meaning of its own: it groups what it holds, if that is more than one.
    function pass(found, element, style, inner, depth) {
      const isInline = style.display.startsWith("inline") || style.display === "contents";
      if (inner.length <= 1 || isInline) {
        found.push(...inner.map((node) => ({ ...node, isDirect: false, isInline: isInline && node.isInline })));
      } else {
        put(found, made("generic", "", element, { key: keyOf(element, ""), children: inner }), depth);
      }
    }

    function atom(element, role) {
      const name = givenName(element) || attribute(element, "title") || attribute(element, "placeholder") ||
        (element.type === "file" ? "Choose file" : "");
      const node = made(role, name, element, { value: valueOf(element, role), states: statesOf(element), key: keyOf(element, role) });
      left.characters -= node.value.length;
      if (element.tagName === "SELECT") {
        const options = [...element.options];
        node.children = options.slice(0, 20).map((one) => made("option", oneLine(one.label), one, { states: statesOf(one) }));
        if (options.length > 20) node.children.push(made("text", `${options.length - 20} more options`, element, {}));
      }
      return node;
    }

    // The text of a label is the name of its control; it stands for a control that is hidden behind it.
    function labelled(label, control, inner) {
      const style = getComputedStyle(control);
      if (style.display !== "none" && style.visibility === "visible" && roleOf(control)) {
        return inner.filter((node) => node.role !== "text");
      }
      const role = roleOf(control);
      if (!role) return inner;
      return [made(role, textOf(label), label, { value: valueOf(control, role), states: statesOf(control), key: keyOf(control, role) })];
    }

    function named(element, role, inner) {
      let name = givenName(element);
      let children = inner;
      if (NAMED_BY_CONTENT.has(role)) {
        name ||= oneLine(said(inner)).trim() || attribute(element, "title");
        children = actedOn(inner);
        left.elements += inner.length - children.length;
        if (role === "heading" && children.length === 1 && children[0].name === name) return children[0];
      } else if (FIELDS.has(role) && element.isContentEditable) {
        children = [];
      } else if (!name && inner.length === 1 && inner[0].role === "text") {
        [name, children] = [inner[0].name, []];
        left.elements += 1;
      }
      return made(role, name.trim(), element, { value: valueOf(element, role), states: statesOf(element), key: keyOf(element, role), children });
    }

    const root = document.body ?? document.documentElement;
    const found = root ? inside(root, getComputedStyle(root), 0) : [];
    elements = [];
    const rows = [];
    const row = (node) => {
      elements.push(node.element);
      const box = node.name || node.value || node.role === "iframe" ? node.element.getBoundingClientRect() : null;
      const isInView = box !== null && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
      const isFrame = /^I?FRAME$/.test(node.element.tagName) && node.element.clientWidth * node.element.clientHeight > 100;
      rows.push([node.role, node.name.trim(), node.value, node.states, node.key, isInView ? 1 : 0, isFrame ? 1 : 0, node.children.length, numberOf(node.element)]);
      node.children.forEach(row);
    };
    found.forEach(row);
    const text = JSON.stringify(rows);
    captures += text === newest ? 0 : 1;
    newest = text;
    const id = `${token}-${captures}`;
    return { title: oneLine(document.title).trim(), roots: found.length, isCut, id, rows: id === known ? null : rows };
  }

  function probe() {
    if (observer === null && document.documentElement) {
      observer = new MutationObserver(() => {
        changes += 1;
        changedAt = performance.now();
      });
      observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    }
    const quietFor = Math.round(performance.now() - changedAt);
    return { token, quietFor, isLoaded: document.readyState === "complete", changes, url: location.href.slice(0, 20_000) };
  }

  function answer(data) {
    const element = document.createElementNS("http://www.w3.org/1999/xhtml", "data");
    element.setAttribute("value", JSON.stringify(data));
    return element;
  }

  function query(_root, selector) {
    const [command, first, second, third] = selector.split(" ");
    if (command === "element") return first === token ? (elements[Number(second)] ?? null) : null;
    if (command === "capture") return answer({ ...probe(), ...capture(Number(first), Number(second), third) });
    return answer(probe());
  }

  return {
    query,
    queryAll(root, selector) {
      const found = query(root, selector);
      return found ? [found] : [];
    },
  };
})();
