// Numbers as text, as the tables have them.
const numbers = (() => {
  "use strict";
  const grouped = (text) => text.replace(/^(\d+)/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
  const short = (value) => {
    if (value === 0) return "0";
    const exponent = Math.floor(Math.log10(Math.abs(value)) + 1e-9);
    return grouped(exponent > 2 ? String(Math.round(value / 10 ** (exponent - 2)) * 10 ** (exponent - 2))
      : value.toFixed(Math.min(12, 2 - exponent)).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""));
  };
  const scaled = (value, base, units) => {
    let at = 0;
    while (Math.abs(value) >= base * .9995 && at < units.length - 1) { value /= base; at += 1; }
    return `${short(value)} ${units[at]}`;
  };
  const seconds = (value) => {
    const size = Math.abs(value);
    if (size === 0) return "0 s";
    if (size < .9995e-6) return `${short(value * 1e9)} ns`;
    if (size < .9995e-3) return `${short(value * 1e6)} µs`;
    return size < .9995 ? `${short(value * 1e3)} ms` : `${short(value)} s`;
  };
  const withUnit = (value, unit) => {
    if (value == null) return "–";
    switch (unit) {
      case "s": return seconds(value);
      case "ms": return seconds(value / 1e3);
      case "ns": return seconds(value / 1e9);
      case "B": return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
      case "B/s": return scaled(value, 1024, ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"]);
      case "records/s":
      case "1/s": return `${short(value)}/s`;
      default: return unit ? `${short(value)} ${unit}` : short(value);
    }
  };
  const units = { "1/s": "a second", "records/s": "records a second", "s": "seconds, logarithmic", "ms": "mean time of one", "B": "bytes", "B/s": "bytes a second", "tasks": "number" };
  const words = ({ unit, source, name }) => (unit === "%" ? { cpu: name === "CPU" ? "per cent of all cores" : "per cent of this core", generator: "per cent of one core", server: "per cent of one core" }[source] ?? "per cent of the time" : units[unit] ?? unit);
  return { grouped, short, seconds, withUnit, words };
})();
