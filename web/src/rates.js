// What digests say over time: counters, and the rates that follow from them. Only numbers that came are shown; nothing is made up between.
const KEPT = 700;
const SPAN = 1.0; // seconds that a rate is over, at least

export class History {
  constructor() {
    this.digests = [];
    this.most = new Map(); // by stream, the most rows that it has held
  }

  add(digest) {
    const last = this.digests.at(-1);
    if (last && (digest.at < last.at || digest.stats.pushes < last.stats.pushes)) this.digests = []; // another server, or processor
    this.digests.push(digest);
    for (const [name, one] of Object.entries(digest.stats.streams)) this.most.set(name, Math.max(one.rows, this.most.get(name) ?? 0));
    if (this.digests.length > KEPT) this.digests.splice(0, this.digests.length - KEPT);
  }

  get last() {
    return this.digests.at(-1);
  }

  before(at) {
    let found = null;
    for (let k = at - 1; k >= 0; k--) {
      found = this.digests[k];
      if (this.digests[at].at - found.at >= SPAN) break;
    }
    return found;
  }

  // A counter's growth a second, as of digest `at`; null where it was not there before.
  rateAt(read, at) {
    const now = this.digests[at];
    const then = this.before(at);
    if (!now || !then) return null;
    const [a, b] = [read(then.stats), read(now.stats)];
    return a == null || b == null || now.at <= then.at ? null : (b - a) / (now.at - then.at);
  }

  rate(read) {
    return this.rateAt(read, this.digests.length - 1);
  }

  series(read, seconds = 60) {
    const end = this.last?.at ?? 0;
    const points = [];
    for (let k = 1; k < this.digests.length; k++) {
      if (end - this.digests[k].at > seconds) continue;
      const value = this.rateAt(read, k);
      if (value != null) points.push([this.digests[k].at - end, Math.max(0, value)]);
    }
    return points;
  }
}
