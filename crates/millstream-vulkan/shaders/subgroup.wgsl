// For a subgroup that is the workgroup: 32 lanes, all of them. The pipeline asks for that, and the
// known-answer test shows it. Every lane that says something does so with one bit of a ballot, and
// one scan adds their lengths.

// All lanes say their item and learn what the others said, in lane order.
fn exchange(item: u32) {
  storageBarrier();
  workgroupBarrier();
  let own = 1u << lane;
  // The first lane that ends the block is the last one that is heard, but for distances owed.
  let ends = subgroupBallot((item & EOB) != 0u && !s_ended && (s_pending & own) == 0u).x;
  var heard = 0xffffffffu;
  if (ends != 0u) { heard = ((ends & (~ends + 1u)) << 1u) - 1u; }
  if (s_ended) { heard = 0u; }
  s_active = heard | s_pending;
  s_need = subgroupBallot((item & REFILL) != 0u).x & s_active;
  s_matches = subgroupBallot((item & MATCH) != 0u).x & s_active;
  let bad = subgroupBallot((item & BAD) != 0u).x & s_active;
  let far = subgroupBallot((item & FAR) != 0u).x & s_active;
  s_flags = select(0u, BAD, bad != 0u) | select(0u, FAR, far != 0u);
  let len = select(0u, item & LEN_MASK, (s_active & own) != 0u);
  s_before = subgroupExclusiveAdd(len);
  s_sum = subgroupAdd(len);
  s_ended = s_ended || ends != 0u;
}

@compute @workgroup_size(32)
fn main(@builtin(subgroup_invocation_id) index: u32, @builtin(workgroup_id) group: vec3<u32>) {
  run(index, group.x);
}
