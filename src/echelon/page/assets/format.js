"use strict";
// Numbers as people read them, and texts that change in place. Texts of users only ever become text.

const NONE = "–";

function known(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** A whole number, with thin spaces from five digits on. */
function count(value) {
  if (!known(value)) return NONE;
  const digits = String(Math.round(Math.abs(value)));
  const grouped = digits.length < 5 ? digits : digits.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return (value < 0 && digits !== "0" ? "−" : "") + grouped;
}

/** A number with about three digits that mean something. */
function number(value, digits = 3) {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1000) return count(value);
  if (size < 0.001) return scientific(value);
  return Number(value.toPrecision(digits)).toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size) + 1e-12))).replace("-", "−");
}

/** 1.3e-15 as errors are written. */
function scientific(value) {
  if (!known(value)) return NONE;
  return value === 0 ? "0" : value.toExponential(1);
}

/** Unit in which times of this size are read: [what seconds are multiplied by, its name]. */
function timeUnit(size) {
  if (size < 0.999e-3) return [1e6, "µs"];
  if (size < 0.999) return [1e3, "ms"];
  if (size < 600) return [1, "s"];
  return size < 36000 ? [1 / 60, "min"] : [1 / 3600, "h"];
}

function seconds(value) {
  if (!known(value)) return NONE;
  if (value === 0) return "0 s";
  const [factor, unit] = timeUnit(Math.abs(value));
  return `${number(value * factor)} ${unit}`;
}

/** The clock of a stream: tenths while it is young, then minutes and hours. */
function clockText(value) {
  if (!known(value)) return NONE;
  if (value < 120) return `${value.toFixed(1)} s`;
  const whole = Math.floor(value);
  const two = (part) => String(part).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} min`;
}

function bytes(value) {
  if (!known(value)) return NONE;
  const names = ["B", "kB", "MB", "GB", "TB", "PB"];
  let power = 0;
  while (Math.abs(value) >= 999.5 && power < names.length - 1) {
    value /= 1000;
    power += 1;
  }
  return `${power ? number(value) : count(value)} ${names[power]}`;
}

function percent(share) {
  return known(share) ? `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %` : NONE;
}

/** "w1, w2 and 5 more" */
function listed(names, most = 8) {
  if (names.length > most) return `${names.slice(0, most - 1).join(", ")} and ${names.length - most + 1} more`;
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;
}

function byId(id) {
  return document.getElementById(id);
}

/** Change a text only where it differs, so that nothing flickers and selections stay. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Show a value of the state: its text, and beside it the value itself for who reads the page by program. */
function put(node, value, text) {
  say(node, text);
  const raw = value === null || value === undefined ? "" : String(value);
  if (node.dataset.value !== raw) node.dataset.value = raw;
}

/** A new element; `of` says which value of the state it shows. */
function make(tag, { of, from, name, text, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  if (of) node.dataset.of = of;
  if (from) node.dataset.from = from;
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** A bar that is filled to a share of its length. */
function fill(bar, share) {
  const width = `${(100 * Math.min(1, Math.max(0, share || 0))).toFixed(1)}%`;
  if (bar.style.width !== width) bar.style.width = width;
}
