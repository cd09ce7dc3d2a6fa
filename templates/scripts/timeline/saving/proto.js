// Protobuf.

const utf8 = new TextEncoder();

/** A growing buffer of protobuf fields. Numbers are whole and below 2^63: a BigInt where they may pass 2^53. */
export class Proto {
  constructor(size = 256) { this.bytes = new Uint8Array(size); this.at = 0; }
  room(n) {
    if (this.at + n <= this.bytes.length) return;
    const more = new Uint8Array(Math.max(this.bytes.length * 2, this.at + n));
    more.set(this.bytes.subarray(0, this.at));
    this.bytes = more;
  }
  varint(value) {
    this.room(10);
    let v = value;
    if (typeof v === "bigint") {
      if (v < 0n) v += 1n << 64n;
      for (; v > 0x1fffffffffffffn; v >>= 7n) this.bytes[this.at++] = Number(v & 127n) | 128;
      v = Number(v);
    }
    for (; v > 127; v = Math.floor(v / 128)) this.bytes[this.at++] = (v % 128) | 128;
    this.bytes[this.at++] = v;
    return this;
  }
  number(field, value) { return this.varint(field * 8).varint(value); }
  fixed64(field, value) {
    this.varint(field * 8 + 1).room(8);
    new DataView(this.bytes.buffer).setBigUint64(this.at, BigInt(value), true);
    this.at += 8;
    return this;
  }
  raw(field, bytes) {
    this.varint(field * 8 + 2).varint(bytes.length).room(bytes.length);
    this.bytes.set(bytes, this.at);
    this.at += bytes.length;
    return this;
  }
  text(field, value) { return this.raw(field, utf8.encode(value)); }
  message(field, inner) { return this.raw(field, inner.bytes.subarray(0, inner.at)); }
  clear() { this.at = 0; return this; }
  taken() { return this.bytes.slice(0, this.at); }
}
