// GDeflate tile decoder: one workgroup of 32 lanes a tile, no 64-bit or 8-bit type, no atomic on the
// output. How lanes learn what the others say, `exchange`, and `main` are in a file of their own:
// workgroup.wgsl with workgroup memory and barriers alone, subgroup.wgsl for subgroups of 32.
//
// Invariants
// 1. `cursor`, `out`, `prev_from`, `prev_to`, `parity`, `pending`, `code` have the same value in all
//    lanes: they are made only of what all lanes read after a barrier. So every branch around a
//    barrier is taken by all lanes or by none.
// 2. Every output word is written once, whole; a word that is not full yet waits in `carry`. What a
//    match reads from the output was written before the last barrier.
// 3. Output of a round is made one round later, when its distances are known; then the bytes of all
//    lanes are one range, and each lane makes whole words of it, following matches inside the round
//    (each step goes to an earlier token, so at most 32 steps).
// 4. Nothing is taken from the tile's words, and nothing written, but behind a check against
//    `src_words` and `raw_len`; rounds and blocks are counted against fixed maxima.

struct Tile { src_word: u32, src_words: u32, dst_word: u32, raw_len: u32 }

@group(0) @binding(0) var<storage, read> src: array<u32>;
@group(0) @binding(1) var<storage, read_write> dst: array<u32>;
@group(0) @binding(2) var<storage, read> tiles: array<Tile>;
@group(0) @binding(3) var<storage, read_write> status: array<u32>;

const OK = 1u;
const TRUNCATED = 2u;
const UNUSED_WORDS = 3u;
const BLOCK_TYPE = 4u;
const BAD_CODE = 5u;
const BAD_SYMBOL = 6u;
const DISTANCE = 7u;
const TOO_LONG = 8u;
const TOO_SHORT = 9u;
const LIMIT = 10u;
const ARGUMENT = 11u;
const INTERNAL = 12u;

const BLOCK_MAX = 128u;
const ROUND_MAX = 2048u + 4u * BLOCK_MAX;

const EOB = 1u << 17u;
const BAD = 1u << 18u;
const REFILL = 1u << 19u;
const MATCH = 1u << 20u;
const FAR = 1u << 21u;
const LEN_MASK = 0x1ffffu;
const LITERAL = 0x80000000u;

var<workgroup> info: array<u32, 64>;
var<workgroup> tok_start: array<u32, 64>;
var<workgroup> tok_value: array<u32, 64>;
var<workgroup> carry: array<u32, 2>;
var<workgroup> lens: array<u32, 320>;    // by symbol: 288 litlen, 32 distance
var<workgroup> syms: array<u32, 320>;    // sorted by code length
var<workgroup> limit: array<u32, 32>;    // 16 litlen, 16 distance: first code behind length l, 15 bits
var<workgroup> base: array<u32, 32>;     // index of the first symbol less its code (wraps)
var<workgroup> hist: array<atomic<u32>, 32>;
var<workgroup> code_bad: array<u32, 2>;
var<workgroup> head: array<u32, 4>;
var<workgroup> made_all: atomic<u32>;
var<workgroup> lost_all: atomic<u32>;

var<private> lane: u32;
var<private> lo: u32;
var<private> hi: u32;
var<private> cnt: u32;
var<private> cursor: u32;
var<private> parity: u32;
var<private> carried: u32;   // which of `carry` is the present one
var<private> tile: Tile;
var<private> s_ended: bool;
var<private> s_pending: u32;
var<private> s_need: u32;
var<private> s_matches: u32;
var<private> s_active: u32;
var<private> s_flags: u32;
var<private> s_sum: u32;
var<private> s_before: u32;
var<private> i_need: u32;
var<private> i_error: u32;
var<private> i_from: u32;
var<private> i_value: u32;
var<private> i_known: u32;
var<private> i_last: u32;
var<private> sort_at: u32;
var<private> chase: array<u32, 4>;
var<private> found: u32;     // the word so far
var<private> open: u32;      // its bytes not known yet
var<private> made: u32;      // whole words this lane has written
var<private> lost: u32;      // not 0: a loop did not end where it must

fn take(n: u32) {
  if (n != 0u) {
    lo = (lo >> n) | (hi << (32u - n));
    hi = hi >> n;
    cnt -= n;
  }
}

// `mask`: the lanes that need a word, in lane order. Returns false if the tile has not so many.
fn refill(mask: u32) -> bool {
  let count = countOneBits(mask);
  if (count > tile.src_words - cursor) { return false; }
  if ((mask & (1u << lane)) != 0u) {
    let at = cursor + countOneBits(mask & ((1u << lane) - 1u));
    let word = src[tile.src_word + at];
    lo |= word << cnt;
    hi = word >> (32u - cnt);
    cnt += 32u;
  }
  cursor += count;
  return true;
}

// Codeword at the front of `lo` in code 0 (litlen, precode) or 16 (distance): length (16: none), symbol.
fn symbol(code: u32, first: u32) -> vec2<u32> {
  let v = reverseBits(lo) >> 17u;
  var l = 0u;
  if (v >= limit[code + 8u]) { l = 8u; }
  if (v >= limit[code + l + 4u]) { l += 4u; }
  if (v >= limit[code + l + 2u]) { l += 2u; }
  if (v >= limit[code + l + 1u]) { l += 1u; }
  l += 1u;
  if (l > 15u) { return vec2(16u, 0u); }
  let at = base[code + l] + (v >> (15u - l));
  return vec2(l, syms[first + min(at, 319u - first)]);
}

fn place(first: u32, s: u32, l: u32) {
  if (lens[first + s] == l) {
    syms[min(sort_at, 319u)] = s;
    sort_at++;
  }
}

// Sorts the symbols and computes limits of two codes at once: `n0` symbols of code 0 in lens[0..],
// 32 of code 16 in lens[288..]. `hist` has the counts. False if one is not a code.
fn build(n0: u32) -> bool {
  workgroupBarrier();
  if (lane < 2u) {
    let code = lane * 16u;
    var next = 0u;
    var used = 0u;
    var total = 0u;
    limit[code] = 0u;
    base[code] = 0u;
    for (var l = 1u; l <= 15u; l++) {
      let n = atomicLoad(&hist[code + l]);
      next = next << 1u;
      base[code + l] = total - next;
      next += n;
      total += n;
      used += n << (15u - l);
      limit[code + l] = min(next << (15u - l), 0x8000u);
    }
    let fine = used == 0x8000u || total == 0u || (total == 1u && atomicLoad(&hist[code + 1u]) == 1u);
    code_bad[lane] = select(1u, 0u, fine);
  }
  workgroupBarrier();
  let bad = code_bad[0] | code_bad[1];
  if (bad != 0u) { return false; }
  // Lane l sorts the symbols of length l of its code.
  let l = lane & 15u;
  let first = select(0u, 288u, lane >= 16u);
  let n = select(n0, 32u, lane >= 16u);
  if (l != 0u) {
    let lead = limit[lane - 1u] >> (15u - l);   // first code of length l
    sort_at = first + base[lane] + lead;
    for (var s = 0u; s < n; s += 8u) {
      place(first, s, l); place(first, s + 1u, l); place(first, s + 2u, l); place(first, s + 3u, l);
      place(first, s + 4u, l); place(first, s + 5u, l); place(first, s + 6u, l); place(first, s + 7u, l);
    }
  }
  workgroupBarrier();
  return true;
}

fn clear_lens() {
  for (var i = lane; i < 320u; i += 32u) { lens[i] = 0u; }
  atomicStore(&hist[lane], 0u);
  workgroupBarrier();
}

fn fixed_lens() {
  for (var i = lane; i < 320u; i += 32u) {
    var l = 8u;
    if (i >= 144u) { l = 9u; }
    if (i >= 256u) { l = 7u; }
    if (i >= 280u) { l = 8u; }
    if (i >= 288u) { l = 5u; }
    lens[i] = l;
  }
  var n = 0u;
  if (lane == 7u) { n = 24u; }
  if (lane == 8u) { n = 152u; }
  if (lane == 9u) { n = 112u; }
  if (lane == 21u) { n = 32u; }
  atomicStore(&hist[lane], n);
}

fn precode_order(k: u32) -> u32 {
  // 16,17,18,0,8,7,9,6 | 10,5,11,4,12,3,13,2 | 14,1,15
  if (k < 3u) { return 16u + k; }
  if (k == 3u) { return 0u; }
  let i = k - 4u;
  if ((i & 1u) == 0u) { return 8u + (i >> 1u); }
  return 7u - (i >> 1u);
}

fn item_heard(j: u32, total: u32) {
  if (i_known < total) {
    let item = info[parity + j];
    if ((item & BAD) != 0u && i_error == 0u) { i_error = BAD_SYMBOL; }
    let v = (item >> 8u) & 31u;
    if (v == 16u) {
      if (i_known == 0u && i_error == 0u) { i_error = BAD_CODE; }
    } else {
      i_last = v;
    }
    if (j == lane) {
      i_from = i_known;
      i_value = i_last;
    }
    i_need |= ((item >> 19u) & 1u) << j;
    i_known += item & 255u;
  }
}

// Reads the code lengths of a dynamic block behind its 17 bits. Returns an error or 0.
fn dynamic_lens(hlit: u32, hdist: u32, hclen: u32) -> u32 {
  clear_lens();
  var word = 0u;
  if (lane < hclen) {
    let l = lo & 7u;
    lens[precode_order(lane)] = l;
    if (l != 0u) { atomicAdd(&hist[l], 1u); }
    take(3u);
    if (cnt < 32u) { word = 1u; }
  }
  parity ^= 32u;
  info[parity + lane] = word;
  workgroupBarrier();
  var mask = 0u;
  for (var j = 0u; j < 32u; j++) { mask |= info[parity + j] << j; }
  if (!refill(mask)) { return TRUNCATED; }
  if (!build(19u)) { return BAD_CODE; }

  // All lanes have read the precode's lengths: the array can be used for the block's.
  for (var i = lane; i < 320u; i += 32u) { lens[i] = 0u; }
  atomicStore(&hist[lane], 0u);
  workgroupBarrier();
  let total = hlit + hdist;
  var known = 0u;
  i_last = 0u;
  // Each item says at least one length: ten rounds are enough for 320.
  for (var round = 0u; round < 10u && known < total; round++) {
    let found = symbol(0u, 0u);
    var used = found.x;
    var n = 1u;
    var value = found.y;
    var flags = 0u;
    if (found.x > 7u) {
      flags = BAD;
      used = 0u;
    } else if (found.y == 16u) {
      n = 3u + ((lo >> found.x) & 3u);
      used += 2u;
    } else if (found.y == 17u) {
      n = 3u + ((lo >> found.x) & 7u);
      used += 3u;
      value = 0u;
    } else if (found.y == 18u) {
      n = 11u + ((lo >> found.x) & 127u);
      used += 7u;
      value = 0u;
    }
    if (cnt - used < 32u) { flags |= REFILL; }
    parity ^= 32u;
    info[parity + lane] = n | (value << 8u) | flags;
    workgroupBarrier();
    i_need = 0u;
    i_error = 0u;
    i_from = total;
    i_value = 0u;
    i_known = known;
    item_heard(0u, total); item_heard(1u, total); item_heard(2u, total); item_heard(3u, total);
    item_heard(4u, total); item_heard(5u, total); item_heard(6u, total); item_heard(7u, total);
    item_heard(8u, total); item_heard(9u, total); item_heard(10u, total); item_heard(11u, total);
    item_heard(12u, total); item_heard(13u, total); item_heard(14u, total); item_heard(15u, total);
    item_heard(16u, total); item_heard(17u, total); item_heard(18u, total); item_heard(19u, total);
    item_heard(20u, total); item_heard(21u, total); item_heard(22u, total); item_heard(23u, total);
    item_heard(24u, total); item_heard(25u, total); item_heard(26u, total); item_heard(27u, total);
    item_heard(28u, total); item_heard(29u, total); item_heard(30u, total); item_heard(31u, total);
    let need = i_need;
    let error = i_error;
    let mine_from = i_from;
    let mine_value = i_value;
    known = i_known;
    if (error != 0u) { return error; }
    if (mine_from < total) {
      take(used);
      if (mine_value != 0u) {
        let to = min(mine_from + n, total);
        let split = clamp(hlit, mine_from, to);
        for (var i = mine_from; i < to; i++) {
          lens[select(i, 288u + i - hlit, i >= hlit)] = mine_value;
        }
        atomicAdd(&hist[mine_value], split - mine_from);
        atomicAdd(&hist[16u + mine_value], to - split);
      }
    }
    if (!refill(need)) { return TRUNCATED; }
  }
  if (!build(288u)) { return BAD_CODE; }
  return 0u;
}

// The token of the round in tok_* that makes byte p.
fn token_at(buf: u32, p: u32) -> u32 {
  var t = 0u;
  if (p >= tok_start[buf + 16u]) { t = 16u; }
  if (p >= tok_start[buf + t + 8u]) { t += 8u; }
  if (p >= tok_start[buf + t + 4u]) { t += 4u; }
  if (p >= tok_start[buf + t + 2u]) { t += 2u; }
  if (p >= tok_start[buf + t + 1u]) { t += 1u; }
  return t;
}

fn stored_byte(start: u32, rest: u32, q: u32) -> u32 {
  var word = rest;
  if (q < (start & ~3u)) { word = dst[tile.dst_word + (q >> 2u)]; }
  return (word >> ((q & 3u) * 8u)) & 255u;
}

// Where byte p of token t comes from, if the token is a match.
fn source(buf: u32, p: u32, t: u32) -> u32 {
  let distance = tok_value[buf + t];
  let begin = tok_start[buf + t];
  let into = p - begin;
  if (into < distance) { return p - distance; }
  return begin - distance + into % max(distance, 1u);
}

// Begins byte p as byte k of the word: known at once, or a place in this round to go on from.
fn begin_byte(k: u32, buf: u32, start: u32, end: u32, rest: u32, p: u32) {
  if (p < start || p >= end) { return; }
  let t = token_at(buf, p);
  let value = tok_value[buf + t];
  if ((value & LITERAL) != 0u) {
    found |= (value & 255u) << (8u * k);
    return;
  }
  let q = source(buf, p, t);
  if (q < start) {
    found |= stored_byte(start, rest, q) << (8u * k);
  } else {
    chase[k] = q;
    open |= 1u << k;
  }
}

// One step from a byte of this round towards the byte it is a copy of.
fn follow(k: u32, buf: u32, start: u32, rest: u32) {
  if ((open & (1u << k)) == 0u) { return; }
  let t = token_at(buf, chase[k]);
  let v = tok_value[buf + t];
  if ((v & LITERAL) != 0u) {
    found |= (v & 255u) << (8u * k);
    open &= ~(1u << k);
    return;
  }
  let q = source(buf, chase[k], t);
  if (q < start) {
    found |= stored_byte(start, rest, q) << (8u * k);
    open &= ~(1u << k);
  } else {
    chase[k] = q;
  }
}

// Makes the bytes start..end of the round whose tokens are in tok_*[buf..].
fn produce(buf: u32, start: u32, end: u32) {
  let rest = carry[carried];
  carried ^= 1u;
  let word_end = (end + 3u) >> 2u;
  for (var w = (start >> 2u) + lane; w < word_end; w += 32u) {
    let at = w * 4u;
    var word = 0u;
    var whole = false;
    if (at >= start && at + 4u <= end) {
      // A whole word inside one match whose source lies in front of this round: two loads, a shift.
      let t = token_at(buf, at);
      let value = tok_value[buf + t];
      let begin = tok_start[buf + t];
      var next = end;
      if (t < 31u) { next = tok_start[buf + t + 1u]; }
      whole = (value & LITERAL) == 0u && at + 4u <= next && at + 4u - begin <= value
          && at + 4u - value <= (start & ~3u);
      if (whole) {
        let q = at - value;
        let place = tile.dst_word + (q >> 2u);
        let shift = (q & 3u) * 8u;
        word = dst[place] >> shift;
        if (shift != 0u) { word |= dst[place + 1u] << (32u - shift); }
      }
    }
    if (!whole) {
      found = 0u;
      open = 0u;
      if (at < start) { found = rest & ((1u << ((start & 3u) * 8u)) - 1u); }
      begin_byte(0u, buf, start, end, rest, at);
      begin_byte(1u, buf, start, end, rest, at + 1u);
      begin_byte(2u, buf, start, end, rest, at + 2u);
      begin_byte(3u, buf, start, end, rest, at + 3u);
      // Each step leads to an earlier token: 32 are enough.
      for (var step = 0u; step < 32u && open != 0u; step++) {
        follow(0u, buf, start, rest);
        follow(1u, buf, start, rest);
        follow(2u, buf, start, rest);
        follow(3u, buf, start, rest);
      }
      lost |= open;
      word = found;
    }
    if (at + 4u <= end) {
      dst[tile.dst_word + w] = word;
      made++;
    } else {
      carry[carried] = word;
    }
  }
}

fn decode() -> u32 {
  if (tile.src_words < 32u) { return TRUNCATED; }
  if (tile.raw_len > 65536u || tile.src_words > 65536u) { return ARGUMENT; }
  lo = src[tile.src_word + lane];
  hi = 0u;
  cnt = 32u;
  cursor = 32u;
  parity = 0u;
  carried = 0u;
  made = 0u;
  lost = 0u;
  var out = 0u;
  var rounds = 0u;
  var blocks = 0u;
  var final_block = false;
  while (!final_block) {
    if (blocks >= BLOCK_MAX) { return LIMIT; }
    // The parity decides which head this is, so that one barrier is enough.
    let h = (blocks & 1u) * 2u;
    blocks++;
    if (lane == 0u) {
      head[h] = lo;
      head[h + 1u] = cnt;
    }
    workgroupBarrier();
    let bits = head[h];
    let held = head[h + 1u];
    final_block = (bits & 1u) != 0u;
    let kind = (bits >> 1u) & 3u;
    if (kind == 3u) { return BLOCK_TYPE; }
    var used = 3u;
    if (kind == 0u) { used = 19u; }
    if (kind == 2u) { used = 17u; }
    if (lane == 0u) { take(used); }
    if (!refill(select(0u, 1u, held - used < 32u))) { return TRUNCATED; }
    var remaining = 0u;
    if (kind == 0u) {
      remaining = (bits >> 3u) & 0xffffu;
      if (remaining > tile.raw_len - out) { return TOO_LONG; }
    } else if (kind == 1u) {
      fixed_lens();
      if (!build(288u)) { return BAD_CODE; }
    } else {
      let error = dynamic_lens(257u + ((bits >> 3u) & 31u), 1u + ((bits >> 8u) & 31u), 4u + ((bits >> 13u) & 15u));
      if (error != 0u) { return error; }
    }

    var pending = 0u;       // lanes that owe a distance
    var tail = false;       // only distances are left
    var prev_from = out;
    var prev_to = out;
    var start = out;        // of this lane's token of the last round
    var value = 0u;         // its literal, or its distance once known
    loop {
      if (rounds >= ROUND_MAX) { return LIMIT; }
      rounds++;
      let owes = (pending & (1u << lane)) != 0u;
      // Look, without taking.
      var n = 0u;
      var item = 0u;
      var next_value = 0u;
      if (kind == 0u) {
        if (lane < remaining) {
          n = 8u;
          item = 1u;
          next_value = LITERAL | (lo & 255u);
        }
      } else if (owes) {
        let found = symbol(16u, 288u);
        n = found.x;
        if (found.x > 15u) {
          item = BAD;
          n = 0u;
        } else {
          var extra = 0u;
          var low = 1u + found.y;
          if (found.y >= 4u) {
            extra = (found.y >> 1u) - 1u;
            low = 1u + ((2u + (found.y & 1u)) << extra);
          }
          value = low + ((lo >> n) & ((1u << extra) - 1u));
          n += extra;
          if (value > start) { item = FAR; }
        }
      } else {
        let found = symbol(0u, 0u);
        n = found.x;
        if (found.x > 15u || found.y > 285u) {
          item = BAD;
          n = 0u;
        } else if (found.y < 256u) {
          item = 1u;
          next_value = LITERAL | found.y;
        } else if (found.y == 256u) {
          item = EOB;
        } else {
          let i = found.y - 257u;
          var extra = 0u;
          var low = 3u + i;
          if (found.y == 285u) {
            extra = 16u;
            low = 3u;
          } else if (i >= 8u) {
            extra = (i >> 2u) - 1u;
            low = 3u + ((4u + (i & 3u)) << extra);
          }
          item = MATCH | (low + ((lo >> n) & ((1u << extra) - 1u)));
          n += extra;
        }
      }
      if (cnt - n < 32u) { item |= REFILL; }
      parity ^= 32u;
      tok_start[parity + lane] = start;
      tok_value[parity + lane] = value;

      // What all lanes say, in lane order.
      s_ended = tail;
      s_pending = pending;
      exchange(item);
      let need = s_need;
      let matches = s_matches;
      let active_lanes = s_active;
      let flags = s_flags;
      let sum = s_sum;
      let before = s_before;
      let ended = s_ended;
      if ((flags & BAD) != 0u) { return BAD_SYMBOL; }
      if ((flags & FAR) != 0u) { return DISTANCE; }
      if (sum > tile.raw_len - out) { return TOO_LONG; }
      let active_mine = (active_lanes & (1u << lane)) != 0u;
      if (active_mine) { take(n); }
      if (!refill(need)) { return TRUNCATED; }
      produce(parity, prev_from, prev_to);

      // This round becomes the last one.
      prev_from = out;
      prev_to = out + sum;
      // A lane without output stands where the next one begins, so that no byte is found in it.
      start = select(prev_to, out + before, active_mine);
      value = next_value;
      out += sum;
      pending = matches;
      if (tail) { break; }
      if (kind == 0u) {
        tail = remaining <= 32u;
        remaining -= min(remaining, 32u);
      } else {
        tail = ended;
      }
    }
  }
  if (out != tile.raw_len) { return TOO_SHORT; }
  if (cursor != tile.src_words) { return UNUSED_WORDS; }
  // What each lane believes to have written must be the tile.
  if (lane == 0u) {
    atomicStore(&made_all, 0u);
    atomicStore(&lost_all, 0u);
  }
  workgroupBarrier();
  atomicAdd(&made_all, made);
  if (lost != 0u) { atomicStore(&lost_all, 1u); }
  // The last word, if it is not full. Bytes behind the tile stay as they are.
  if (lane == 0u && (out & 3u) != 0u) {
    let at = tile.dst_word + (out >> 2u);
    let mask = (1u << ((out & 3u) * 8u)) - 1u;
    dst[at] = (dst[at] & ~mask) | (carry[carried] & mask);
  }
  workgroupBarrier();
  if (atomicLoad(&made_all) != (tile.raw_len >> 2u) || atomicLoad(&lost_all) != 0u) { return INTERNAL; }
  return OK;
}

fn run(index: u32, group: u32) {
  lane = index;
  tile = tiles[group];
  let verdict = decode();
  if (lane == 0u) { status[group] = verdict; }
}
