//! Gzip without compression: the readers of images expect the frame, and stored blocks are the same forever.

/// The longest stored block.
const BLOCK: usize = 0xFFFF;

/// The bytes in a gzip frame.
pub(super) fn stored(bytes: &[u8]) -> Vec<u8> {
    // Deflate, no flags, no time, no hint of a method, no system.
    let mut frame = vec![0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255];
    let count = bytes.len().div_ceil(BLOCK).max(1);
    for number in 0..count {
        let block = &bytes[number * BLOCK..bytes.len().min((number + 1) * BLOCK)];
        let length = u16::try_from(block.len()).expect("a block is at most that long");
        frame.push(u8::from(number + 1 == count));
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&(!length).to_le_bytes());
        frame.extend_from_slice(block);
    }
    frame.extend_from_slice(&crc32(bytes).to_le_bytes());
    // The length modulo 2³², as the format wants it.
    let length = u32::try_from(bytes.len() as u64 & 0xFFFF_FFFF).expect("32 bits");
    frame.extend_from_slice(&length.to_le_bytes());
    frame
}

fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !bytes.iter().fold(!0, |sum, &byte| {
        let [low, ..] = sum.to_le_bytes();
        TABLE[usize::from(low ^ byte)] ^ (sum >> 8)
    })
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut value, mut bit) = (index as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { 0xEDB8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, crc32, stored};

    #[test]
    fn the_sum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn exactly_the_last_block_is_marked_as_last() {
        for (length, blocks) in [(0, 1), (1, 1), (BLOCK, 1), (BLOCK + 1, 2), (3 * BLOCK, 3)] {
            let frame = stored(&vec![7; length]);
            assert_eq!(frame.len(), 10 + 5 * blocks + length + 8, "{length}");
            let starts = (0..blocks).map(|number| frame[10 + number * (BLOCK + 5)]);
            assert_eq!(starts.collect::<Vec<_>>(), [vec![0; blocks - 1], vec![1]].concat(), "{length}");
        }
    }
}
