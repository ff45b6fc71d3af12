// Numbers for people.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (value) => (value == null ? "–" : whole.format(value));

export function short(value) {
  if (value == null || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(0)} k`;
  if (size >= 1e3) return `${(value / 1e3).toFixed(1)} k`;
  if (size >= 10 || Number.isInteger(value)) return value.toFixed(0);
  return value.toFixed(size >= 1 ? 1 : 2);
}

export const rate = (value) => (value == null ? "–" : `${short(value)}/s`);

export function bytes(value) {
  if (value == null) return "–";
  if (value >= 2 ** 30) return `${(value / 2 ** 30).toFixed(1)} GB`;
  if (value >= 2 ** 20) return `${(value / 2 ** 20).toFixed(1)} MB`;
  if (value >= 2 ** 10) return `${(value / 2 ** 10).toFixed(0)} KB`;
  return `${value} B`;
}

export const percent = (share) => (share == null ? "–" : share > 0 && share < 0.001 ? "<0.1%" : `${(share * 100).toFixed(1)}%`);

export const time = (text) => (text == null ? "–" : text.replace("T", " "));
