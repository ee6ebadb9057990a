//! Plans: every byte once, in the order of the files, joined as far as the bounds allow.

use millstream_weights::{Extent, PlanOptions, plan};

#[test]
fn a_plan_has_every_byte_in_file_order_and_keeps_its_bounds() {
    let mut random = millstream_testing::random();
    for _ in 0..2000 {
        let items: Vec<Extent> = (0..random.usize(..30))
            .map(|_| Extent {
                file: random.usize(..3),
                offset: random.u64(..2000),
                len: random.u64(..100) * random.u64(..3),
            })
            .collect();
        let options = PlanOptions {
            bytes_max: random.u64(..300),
            gap_bytes_max: random.u64(..50),
        };
        let reads = plan(&items, &options);
        let mut found = vec![0; items.len()];
        for read in &reads {
            let mut end = read.extent.offset;
            for part in &read.parts {
                let item = &items[part.item];
                let offset = read.extent.offset + part.at;
                assert_eq!((item.file, item.offset), (read.extent.file, offset));
                assert!(part.len > 0 && offset <= end + options.gap_bytes_max);
                end = end.max(offset + part.len);
                found[part.item] += part.len;
            }
            assert_eq!(end, read.extent.end());
            assert!(read.extent.len <= options.bytes_max || read.parts.len() == 1);
        }
        assert!(
            items
                .iter()
                .zip(found)
                .all(|(item, found)| item.len == found)
        );
        for two in reads.windows(2) {
            let (a, b) = (&two[0].extent, &two[1].extent);
            assert!((a.file, a.offset) <= (b.file, b.offset));
            let joined = a.end().max(b.offset + two[1].parts[0].len) - a.offset;
            let is_far = b.offset.saturating_sub(a.end()) > options.gap_bytes_max;
            assert!(a.file != b.file || is_far || joined > options.bytes_max);
        }
    }
}

#[test]
fn extents_that_overflow_do_no_harm() {
    let extent = |offset, len| Extent {
        file: 0,
        offset,
        len,
    };
    let items = [
        extent(u64::MAX, u64::MAX),
        extent(u64::MAX - 1, 5),
        extent(0, 1),
    ];
    let reads = plan(&items, &PlanOptions::default());
    assert_eq!(reads.iter().map(|read| read.parts.len()).sum::<usize>(), 3);
}

#[test]
fn a_mixture_of_experts_takes_few_reads() {
    // 18,867 tensors, as Qwen3-30B-A3B has: 48 layers of 128 experts of three matrices, and more.
    let (mut items, mut offset) = (Vec::new(), 1 << 20);
    for nth in 0..18_867u64 {
        let len = if nth % 393 < 384 { 3 << 20 } else { 4096 };
        items.push(Extent {
            file: (nth / 1200) as usize,
            offset,
            len,
        });
        offset += len;
    }
    let reads = plan(&items, &PlanOptions::default());
    assert!(reads.len() < 10_000, "{} reads", reads.len());
    let bytes = |all: &[Extent]| all.iter().map(|extent| extent.len).sum::<u64>();
    let read: Vec<Extent> = reads.iter().map(|read| read.extent).collect();
    assert_eq!(bytes(&read), bytes(&items));
}
