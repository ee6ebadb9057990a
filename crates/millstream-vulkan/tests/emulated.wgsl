// Operations of a subgroup of 32, emulated in workgroup memory: a test of the shader for subgroups.
var<workgroup> said: array<u32, 32>;
fn all_said(mine: u32) {
  workgroupBarrier();
  said[lane] = mine;
  workgroupBarrier();
}
fn emulatedBallot(mine: bool) -> vec4<u32> {
  all_said(select(0u, 1u, mine));
  var mask = 0u;
  for (var i = 0u; i < 32u; i++) { mask |= said[i] << i; }
  return vec4(mask, 0u, 0u, 0u);
}
fn emulatedExclusiveAdd(mine: u32) -> u32 {
  all_said(mine);
  var sum = 0u;
  for (var i = 0u; i < lane; i++) { sum += said[i]; }
  return sum;
}
fn emulatedAdd(mine: u32) -> u32 {
  all_said(mine);
  var sum = 0u;
  for (var i = 0u; i < 32u; i++) { sum += said[i]; }
  return sum;
}
