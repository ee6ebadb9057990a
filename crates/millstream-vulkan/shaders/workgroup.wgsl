// For subgroups of any size: workgroup memory and barriers.

// Takes in what lane j said; to be called for all lanes in order.
fn heard(j: u32) {
  let it = info[parity + j];
  let bit = 1u << j;
  if (!s_ended || (s_pending & bit) != 0u) {
    s_active |= bit;
    s_flags |= it;
    s_need |= ((it >> 19u) & 1u) << j;
    s_matches |= ((it >> 20u) & 1u) << j;
    if (j == lane) { s_before = s_sum; }
    s_sum += it & LEN_MASK;
    s_ended = s_ended || (it & EOB) != 0u;
  }
}

// All lanes say their item and learn what the others said, in lane order.
fn exchange(item: u32) {
  info[parity + lane] = item;
  storageBarrier();
  workgroupBarrier();
  s_need = 0u;
  s_matches = 0u;
  s_active = 0u;
  s_flags = 0u;
  s_sum = 0u;
  s_before = 0u;
  heard(0u); heard(1u); heard(2u); heard(3u);
  heard(4u); heard(5u); heard(6u); heard(7u);
  heard(8u); heard(9u); heard(10u); heard(11u);
  heard(12u); heard(13u); heard(14u); heard(15u);
  heard(16u); heard(17u); heard(18u); heard(19u);
  heard(20u); heard(21u); heard(22u); heard(23u);
  heard(24u); heard(25u); heard(26u); heard(27u);
  heard(28u); heard(29u); heard(30u); heard(31u);
}

@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) index: u32, @builtin(workgroup_id) group: vec3<u32>) {
  run(index, group.x);
}
